"""Representations of some nodes, computed from what these nodes depend on."""

import torch
from torch import Tensor

from fastgtn.config.batch_options import BatchOptions
from fastgtn.nn import MetaPathModel, NodeClassifier
from fastgtn.training.build import Inputs
from fastgtn.training.memory import PASS_BYTES
from fastgtn.training.predict import Inference, chosen_mode


class OnDemand:
    """Computes the nodes of each call with the values that a pass over all nodes would give them.

    Where a pass over all nodes is cheap, it is made and kept as soon as the calls together have read as much as it
    would; :meth:`prefers_all` then answers yes.
    """

    def __init__(
        self, inputs: Inputs, model: NodeClassifier, target: str, options: BatchOptions, *, seed: int = 0
    ) -> None:
        self.inputs, self.model, self.options, self.seed = inputs, model, options, seed
        self.rows = torch.tensor(inputs.raw.nodes_of(target), dtype=torch.int64)
        self.mode = chosen_mode(inputs, model, options, PASS_BYTES)
        self.read = 0
        backbone = model.backbone
        self.is_local = backbone.num_hops == 0 or (isinstance(backbone, MetaPathModel) and not backbone.sees_all_nodes)

    @property
    def prefers_all(self) -> bool:
        """Whether all nodes should be computed once and kept, instead of single ones in every call."""
        if self.mode in ("batches", "blocks"):
            return False
        return not self.is_local or (self.mode == "rows" and self.read > self._whole_pass)

    @property
    def _whole_pass(self) -> int:
        """The number of stored values that a pass over all nodes reads."""
        raw = self.inputs.raw
        return max(1, self.model.backbone.num_hops) * (raw.num_edges + raw.num_nodes)

    def representations(self, nodes: Tensor) -> Tensor:
        """Before the head, [nodes, out_features], for numbers within the target type."""
        wanted, place = nodes.unique(return_inverse=True)
        if not len(wanted):
            return torch.empty(0, self.model.backbone.out_features)
        return (self._sampled if self.mode == "batches" else self._planned)(wanted)[place]

    def _planned(self, nodes: Tensor) -> Tensor:
        inference = Inference(self.inputs, self.model, self.rows[nodes], self.options, seed=self.seed, mode="blocks")
        parts = [part.cpu() for part in inference.representations(self.model)]
        self.read += inference.read
        return torch.cat(parts)

    def _sampled(self, nodes: Tensor) -> Tensor:
        """Whole batches with the seeds of a prediction of all nodes: a sample depends on all targets of its batch."""
        inference = Inference(self.inputs, self.model, self.rows, self.options, seed=self.seed, mode="batches")
        size = inference.batch_size
        batches = (nodes // size).unique()
        parts = zip(batches.tolist(), inference.representations(self.model, batches.tolist()), strict=True)
        return torch.cat([z.cpu()[nodes[nodes // size == number] - number * size] for number, z in parts])
