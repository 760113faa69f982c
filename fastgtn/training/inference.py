"""What a trained model says of nodes, in bounded memory: exactly where it fits, and from batches where it does not."""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.models import NodeClassifier
from fastgtn.relations import derived_seed
from fastgtn.training.batch_options import BatchOptions
from fastgtn.training.batches import Batcher, made_ahead
from fastgtn.training.build import Inputs, Plan
from fastgtn.training.memory import PASS_BYTES, feature_bytes, pass_bytes

Mode = Literal["rows", "all", "blocks", "batches"]
KEPT_BYTES = 1e9  # a pass over the wanted rows that takes less is prepared once and kept
LOGIT_BYTES = 64e6  # logits at once
BLOCK_ROWS = 1 << 16
NON_LOCAL_NODES = 50_000  # non-local operations compare all pairs of nodes: with more, only those of a batch


class Inference:
    """Logits of some nodes, as often as they are asked for, with whatever weights a model has by then.

    Four ways: `rows`, one exact pass over what the nodes depend on, prepared once and kept; `all`, one exact pass
    over every row of the graph, which copies nothing; `blocks`, exact passes for a part of the nodes each; and
    `batches`, passes over sampled neighbourhoods, as in training.
    """

    def __init__(
        self, inputs: Inputs, model: NodeClassifier, rows: Tensor, options: BatchOptions | None = None, *,
        seed: int = 0, budget: float = PASS_BYTES, plan: Plan | None = None,
    ) -> None:  # fmt: skip
        self.inputs, self.rows, self.seed, self.budget = inputs, rows, seed, budget
        self.options = options or BatchOptions()
        self.mode = chosen_mode(inputs, model, self.options, budget) if plan is None else "rows"
        self.plan = plan
        if plan is None and self.mode in ("rows", "all"):
            self.plan = (inputs.plan if self.mode == "rows" else inputs.plan_all)(model, rows)

    def logits(self, model: NodeClassifier) -> Iterator[Tensor]:
        """Blocks of rows, in the order of the nodes."""
        for z in self.representations(model):
            yield from logit_blocks(model, z)

    @torch.no_grad()
    def representations(self, model: NodeClassifier) -> Iterator[Tensor]:
        """The same before the head: blocks of [rows, out_features]."""
        model.eval()
        if self.plan is not None:
            yield self.plan.representations(model)
            return
        plans = self._sampled(model) if self.mode == "batches" else self._blocks(model)
        for plan in plans:
            yield plan.representations(model)

    def _sampled(self, model: NodeClassifier) -> Iterator[Plan]:
        batcher = Batcher(self.inputs, model, self.options)
        parts = self.rows.split(self.options.size or 1024)
        # epochs count from 0: these seeds are none of training's
        seeds = [derived_seed(self.seed, 0xE7A1, number) for number in range(len(parts))]
        batches = made_ahead(
            lambda job: batcher.make(*job), list(zip(parts, seeds, strict=True)), self.options.prefetch
        )
        yield from (batch.plan for batch in batches)

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
            yield Plan(self.inputs.features.select(graph.inputs), graph, rows if graph.inputs is None else None)


@torch.no_grad()
def logit_blocks(model: NodeClassifier, z: Tensor) -> Iterator[Tensor]:
    """The head, so many rows at a time that thousands of classes do not fill the memory."""
    rows = max(1, int(LOGIT_BYTES / (4 * model.head.out_features)))
    yield from (model.classify(part) for part in z.split(rows))


def chosen_mode(inputs: Inputs, model: NodeClassifier, options: BatchOptions, budget: float) -> Mode:
    """How a model is best asked on a graph of this size."""
    if options.eval == "batches":
        return "batches"
    one_pass = pass_bytes(inputs.raw, model)
    needs_pairs = model.backbone.sees_all_nodes and inputs.raw.num_nodes > NON_LOCAL_NODES
    if options.eval == "auto" and options.size and (one_pass > budget or needs_pairs):
        return "batches"
    if one_pass + feature_bytes(inputs.features) <= min(KEPT_BYTES, budget):
        return "rows"
    return "all" if one_pass <= budget else "blocks"


def representations(
    model: NodeClassifier, inputs: Inputs, target: str, options: BatchOptions | None = None, *, seed: int = 0
) -> Tensor:
    """All nodes of a type before the head, in evaluation mode, [nodes, out_features]."""
    rows = torch.tensor(inputs.raw.nodes_of(target), dtype=torch.int64)
    parts = list(Inference(inputs, model, rows, options, seed=seed).representations(model))
    if not parts:
        raise InputError(f'the graph has no nodes of type "{target}": there is nothing to predict.')
    return parts[0] if len(parts) == 1 else torch.cat(parts)
