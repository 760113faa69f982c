"""Node2Vec: embeddings from random walks, learned without labels, and a linear classifier."""

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.nn.backbone import Backbone
from fastgtn.nn.backbone_options import BackboneOptions, counted, describes
from fastgtn.nn.baselines.mlp import NoEdges
from fastgtn.nn.baselines.parts.edge_list import EdgeList
from fastgtn.nn.baselines.parts.random_walks import WalkGraph, skip_gram
from fastgtn.nn.inputs.checks import Input
from fastgtn.nn.inputs.encoders import InputLinear
from fastgtn.nn.inputs.features import Features
from fastgtn.options import Choice, Count, Rate, Section, Values
from fastgtn.relations import RelationStack
from fastgtn.relations.kernels.dropout import drop


class WalkOptions(Section):
    """The options of random walks and skip-gram.

    Args:
        p: The weight of a step back is 1 / p.
        q: The weight of a step away from the neighbourhood of the last node is 1 / q.
        window: Nodes at most this far apart on a walk are neighbours.
        negatives: Number of random nodes drawn as negative examples for each neighbour.
    """

    walk_length: Annotated[int, Field(ge=2), Choice((10, 20, 40))] = 20
    walks_per_node: Count = 10
    window: Annotated[Count, Choice((3, 5, 10))] = 5
    negatives: Count = 5
    p: Annotated[Rate, Choice((0.25, 1.0, 4.0))] = 1.0
    q: Annotated[Rate, Choice((0.25, 1.0, 4.0))] = 1.0


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
                "remove the features, so that every node type has embeddings."
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
        found = skip_gram(WalkGraph.of(EdgeList.of(stack)), self.out_features, seed=seed, **self.walks.model_dump())
        table = torch.from_numpy(found)
        table = (table - table.mean(0)) / table.std(0, correction=0).clamp(min=1e-12)
        for key, weight in zip(self.input.keys, self.input.weights, strict=True):
            span = stack.nodes_of(key)
            weight.copy_(table[span.start : span.stop])

    def forward(self, x: Input, graph: RelationStack | NoEdges) -> Tensor:  # noqa: ARG002
        """The embeddings [N, hidden]; the graph was read in `prepare`."""
        return drop(self.input(Features.of(x)), self.dropout, self.training)


@describes(Node2Vec, "Node2Vec")
class Node2VecOptions(WalkOptions, BackboneOptions):
    """The keys of Node2Vec."""

    reads_features: ClassVar[bool] = False
    # only a linear map is trained: it is cheap, and its optimum is far from the start
    settings: ClassVar[Values] = BackboneOptions.settings | {
        "fit": {"epochs": 200, "patience": 50, "learning_rate": 0.01, "weight_decay": 0.0005}
    }
    also_searched: ClassVar[dict[str, Choice]] = {"features.normalize": Choice(("none",))}

    name: Literal["node2vec"]
    num_layers: Literal[1] = 1

    @property
    def summary(self) -> str:
        return f"{self.label} · {counted(self.walks_per_node, 'walk')} of {self.walk_length} nodes from each"

    @property
    def num_hops(self) -> int:
        return 0

    def arguments(self) -> Values:
        walks = {name: getattr(self, name) for name in WalkOptions.model_fields}
        return super().arguments() | {"walks": WalkOptions(**walks)}
