"""Predict nodes in bounded memory: exactly if that fits into memory, otherwise from sampled batches."""

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from fastgtn.config.batch_options import BatchOptions
from fastgtn.errors import InputError
from fastgtn.nn import NodeClassifier
from fastgtn.nn.classifier import Predictor
from fastgtn.relations import derived_seed
from fastgtn.relations.sampling.moments import by_moment
from fastgtn.training.batches import Batcher, made_ahead
from fastgtn.training.build import Inputs, Plan, hops_seen
from fastgtn.training.memory import PASS_BYTES, feature_bytes, pass_bytes

Mode = Literal["rows", "all", "blocks", "batches"]
KEPT_BYTES = 1e9  # a pass over the requested rows that needs less memory is prepared once and kept
LOGIT_BYTES = 64e6  # logits at once
BLOCK_ROWS = 1 << 16
NON_LOCAL_NODES = 50_000  # non-local operations compare all pairs of nodes; on larger graphs only those of a batch


class Inference:
    """The logits of some nodes, computed on request with the current weights of a model.

    Four ways exist: `rows`, one exact pass over what the nodes depend on, prepared once and kept; `all`, one exact pass
    over every row of the graph, which copies nothing; `blocks`, exact passes for a part of the nodes each; and
    `batches`, passes over sampled neighbourhoods, as in training.
    """

    def __init__(
        self,
        inputs: Inputs,
        model: NodeClassifier,
        rows: Tensor,
        options: BatchOptions | None = None,
        *,
        seed: int = 0,
        budget: float = PASS_BYTES,
        plan: Plan | None = None,
        mode: Mode | None = None,
    ) -> None:
        self.inputs, self.rows, self.seed, self.budget = inputs, rows, seed, budget
        self.options = options or BatchOptions()
        self.mode = mode or (chosen_mode(inputs, model, self.options, budget, rows) if plan is None else "rows")
        self.plan = plan
        self.read = 0  # stored values of the graph that blocks have read
        if plan is None and self.mode in ("rows", "all"):
            self.plan = (inputs.plan if self.mode == "rows" else inputs.plan_all)(model, rows)

    def logits(self, model: Predictor) -> Iterator[Tensor]:
        """Blocks of rows, in the order of the nodes."""
        assert isinstance(model, NodeClassifier)
        for z in self.representations(model):
            yield from logit_blocks(model, z)

    @property
    def batch_size(self) -> int:
        """Rows of a sampled batch."""
        return self.options.size or 1024

    @torch.no_grad()
    def representations(self, model: NodeClassifier, batches: Sequence[int] | None = None) -> Iterator[Tensor]:
        """The same before the head: blocks of [rows, out_features].

        Args:
            batches: Compute only sampled batches of these numbers.
        """
        model.eval()
        if self.plan is not None:
            yield self.plan.representations(model)
            return
        if self.inputs.moments is not None and self.mode == "blocks":
            yield self._at_moments(model, self.inputs.moments[self.rows])
            return
        plans = self._sampled(model, batches) if self.mode == "batches" else self._blocks(model)
        for plan in plans:
            yield plan.representations(model)

    def _sampled(self, model: NodeClassifier, numbers: Sequence[int] | None) -> Iterator[Plan]:
        batcher = Batcher(self.inputs, model, self.options)
        parts = self.rows.split(self.batch_size)
        # epochs count from 0, so these seeds differ from those of training
        jobs = [
            (parts[number], derived_seed(self.seed, 0xE7A1, number))
            for number in (range(len(parts)) if numbers is None else numbers)
        ]
        yield from (batch.plan for batch in made_ahead(lambda job: batcher.make(*job), jobs, self.options.prefetch))

    def _at_moments(self, model: NodeClassifier, moments: Tensor) -> Tensor:
        """One moment after the other, where the graphs of all moments together do not fit."""
        found, places = [], []
        for _, mine in by_moment(moments):
            seen, rows = self.inputs.seen_by(self.rows[mine], hops_seen(model))
            alone = Inference(seen, model, rows, budget=self.budget, mode="blocks")
            found += [z.cpu() for z in alone.representations(model)]
            self.read += alone.read
            places.append(mine)
        return torch.cat(found)[torch.cat(places).argsort()]

    def _blocks(self, model: NodeClassifier) -> Iterator[Plan]:
        waiting = list(self.rows.split(BLOCK_ROWS))[::-1]
        while waiting:
            rows = waiting.pop()
            graph = model.backbone.plan(self.inputs.stack, rows)
            share = 1.0 if graph.inputs is None else len(graph.inputs) / max(self.inputs.raw.num_nodes, 1)
            need = share * (pass_bytes(self.inputs.raw, model) + feature_bytes(self.inputs.features))
            divisible = graph.inputs is not None and not model.backbone.sees_all_nodes
            if need > self.budget and len(rows) > 1 and divisible:
                waiting += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
                continue
            plan = Plan(self.inputs.features.select(graph.inputs), graph, rows if graph.inputs is None else None)
            self.read += graph.cost
            yield plan.to(self.inputs.device)


@torch.no_grad()
def logit_blocks(model: NodeClassifier, z: Tensor) -> Iterator[Tensor]:
    """Apply the head in blocks of rows, so that thousands of classes do not fill the memory; logits are on the CPU."""
    rows = max(1, int(LOGIT_BYTES / (4 * model.head.out_features)))
    device = model.head.weight.device
    yield from (model.classify(part.to(device)).cpu() for part in z.split(rows))


def chosen_mode(
    inputs: Inputs, model: NodeClassifier, options: BatchOptions, budget: float, rows: Tensor | None = None
) -> Mode:
    """The best way to run a model on a graph of this size; rows of different moments read a graph each."""
    if options.eval == "batches":
        return "batches"
    moments = None if inputs.moments is None else inputs.moments[slice(None) if rows is None else rows]
    graphs = 1 if moments is None else len(moments.unique())
    one_pass = graphs * pass_bytes(inputs.raw, model)
    needs_pairs = model.backbone.sees_all_nodes and inputs.raw.num_nodes > NON_LOCAL_NODES
    if options.eval == "auto" and options.size and (one_pass > budget or needs_pairs):
        return "batches"
    if one_pass + graphs * feature_bytes(inputs.features) <= min(KEPT_BYTES, budget):
        return "rows"
    return "all" if one_pass <= budget else "blocks"


def representations(
    model: NodeClassifier, inputs: Inputs, target: str, options: BatchOptions | None = None, *, seed: int = 0
) -> Tensor:
    """All nodes of a type before the head, in evaluation mode, [nodes, out_features]."""
    rows = torch.tensor(inputs.raw.nodes_of(target), dtype=torch.int64)
    parts = [part.cpu() for part in Inference(inputs, model, rows, options, seed=seed).representations(model)]
    if not parts:
        raise InputError(f'the graph has no nodes of type "{target}": there is nothing to predict.')
    return parts[0] if len(parts) == 1 else torch.cat(parts)
