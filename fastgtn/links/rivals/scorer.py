"""What every link predictor can do: score pairs, and score a source with every target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fastgtn.links.edges import Array
from fastgtn.links.fit import can_rank, full_ranking
from fastgtn.links.metrics import pair_scores
from fastgtn.links.reverses import both_directions
from fastgtn.links.task import LinkTask, Pairs, Stage
from fastgtn.links.verdict import chosen_by


@dataclass(frozen=True, eq=False)
class Scorer:
    """A trained predictor.

    Args:
        rows: Scores of some sources with every target, [sources, targets]; "val" knows the training links only,
            "test" the validation links as well.
    """

    rows: Callable[[Array, Stage], Array]

    def pairs(self, pairs: Pairs, stage: Stage) -> Array:
        """Scores of pairs, a block of sources at a time."""
        sources, place = np.unique(pairs.source, return_inverse=True)
        out = np.zeros(len(pairs))
        for first in range(0, len(sources), 256):
            mine = (place >= first) & (place < first + 256)
            block = self.rows(sources[first : first + 256], stage)
            out[mine] = block[place[mine] - first, pairs.target[mine]]
        return out

    def choice(self, task: LinkTask) -> float:
        """The validation score that chooses the model, and nothing else."""
        if task.chooses_by_ranking and can_rank(task, "val"):
            return chosen_by(task, full_ranking(task, lambda sources: self.rows(sources, "val"), "val"))
        return chosen_by(task, pair_scores(self.pairs(task.val, "val"), task.val.labels, task.val.source))

    def evaluate(self, task: LinkTask, stage: Stage) -> dict[str, float]:
        """The metrics of the pairs and of the full ranking, in which known links are left out."""
        pairs = task.pairs_at(stage)
        scores = pair_scores(self.pairs(pairs, stage), pairs.labels, pairs.source)
        return scores | full_ranking(task, lambda sources: self.rows(sources, stage), stage)


@dataclass(frozen=True, eq=False)
class Union:
    """All relations of a graph in one numbering: edges in both directions, each with the number of its relation."""

    edge_index: Tensor
    kinds: Tensor
    starts: dict[str, int]
    num_nodes: int
    num_kinds: int
    target_kind: int

    @staticmethod
    def of(task: LinkTask, stage: Stage) -> Union:
        graph, _ = both_directions(task.graph_at(stage), task.reverses)
        counts = [int(graph[t].num_nodes or 0) for t in graph.node_types]
        starts = dict(zip(graph.node_types, np.cumsum([0, *counts]).tolist(), strict=False))
        edges, kinds = [], []
        for number, (source, name, target) in enumerate(graph.edge_types):
            index = graph[source, name, target].edge_index
            edges.append(index + torch.tensor([[starts[source]], [starts[target]]]))
            kinds.append(torch.full((index.size(1),), number))
        own = list(graph.edge_types).index(tuple(task.relation))
        return Union(torch.cat(edges, 1), torch.cat(kinds), starts, sum(counts), len(edges), own)
