"""Node2Vec: embeddings from random walks, learned before any label is seen, and a linear classifier."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.models.backbone import Backbone
from fastgtn.models.baselines.edge_list import EdgeList
from fastgtn.models.baselines.mlp import NoEdges
from fastgtn.models.baselines.random_walks import WalkGraph, skip_gram
from fastgtn.models.dropout import drop
from fastgtn.models.encoders import InputLinear
from fastgtn.models.features import Features
from fastgtn.models.inputs import Input
from fastgtn.relations import RelationStack


@dataclass(frozen=True)
class WalkOptions:
    """Random walks and what is learned from them.

    Args:
        p: A step back weighs 1 / p.
        q: A step away from the last node's neighbourhood weighs 1 / q.
        window: Nodes at most this far apart on a walk are neighbours.
        negatives: Nodes drawn at random for each neighbour, to be told apart from it.
    """

    walk_length: int = 20
    walks_per_node: int = 10
    window: int = 5
    negatives: int = 5
    p: float = 1.0
    q: float = 1.0


class Node2Vec(Backbone):
    """Node2Vec of Grover and Leskovec on the undirected graph of all relations; with p = q = 1 it is DeepWalk.

    The embeddings are the weights of an input map over nodes without features. `prepare` learns them and nothing
    changes them afterwards: only the classifier on top is trained with labels.
    """

    def __init__(self, features: Features, hidden: int, walks: WalkOptions | None = None, *, dropout: float = 0.0):
        super().__init__()
        if features.widths:
            raise InputError(
                f"Node2Vec reads no features, but some nodes have them ({', '.join(features.widths)}): "
                "leave them out, so that every node type has embeddings."
            )
        self.walks = walks or WalkOptions()
        self.dropout, self.out_features = dropout, hidden
        self.input = InputLinear({}, features.embedded, hidden)
        self.input.requires_grad_(False)

    def plan(self, stack: RelationStack, rows: Tensor | None = None) -> NoEdges:  # noqa: ARG002
        return NoEdges(rows)

    @torch.no_grad()
    def prepare(self, features: Features, stack: RelationStack) -> None:  # noqa: ARG002
        """Walk and learn; the seed comes from torch's generator. Every column gets mean 0 and deviation 1."""
        stack.require_non_negative("a random walk")
        seed = int(torch.randint(1, 2**31, ()))
        found = skip_gram(WalkGraph.of(EdgeList.of(stack)), self.out_features, seed=seed, **vars(self.walks))
        table = torch.from_numpy(found)
        table = (table - table.mean(0)) / table.std(0, correction=0).clamp(min=1e-12)
        for key, weight in zip(self.input.keys, self.input.weights, strict=True):
            span = stack.nodes_of(key)
            weight.copy_(table[span.start : span.stop])

    def forward(self, x: Input, graph: RelationStack | NoEdges) -> Tensor:  # noqa: ARG002
        """The embeddings [N, hidden]; the graph was read in `prepare`."""
        return drop(self.input(Features.of(x)), self.dropout, self.training)
