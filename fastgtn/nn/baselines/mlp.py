"""MLP: features only, without edges."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from fastgtn.nn.backbone import Backbone
from fastgtn.nn.backbone_options import BackboneOptions, describes
from fastgtn.nn.inputs.checks import Input, as_sizes, check_hyper_parameters
from fastgtn.nn.inputs.encoders import InputLinear
from fastgtn.nn.inputs.features import Features
from fastgtn.relations import RelationStack
from fastgtn.relations.kernels.dropout import drop


@dataclass(frozen=True, eq=False)
class NoEdges:
    """A graph without edges: every row depends only on itself."""

    inputs: Tensor | None
    cost: int = 0


class MLP(Backbone):
    """Linear maps with ReLU between them; the head is the last one."""

    may_skip_weights = False

    def __init__(self, in_features: int | Features, hidden: int, *, num_layers: int = 2, dropout: float = 0.5) -> None:
        super().__init__()
        check_hyper_parameters(num_layers=num_layers, dropout=dropout)
        self.dropout = dropout
        self.out_features = hidden
        self.input = InputLinear(*as_sizes(in_features), hidden, dropout=dropout)
        # the input map is the first layer and the head of the classifier the last
        self.linears = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(num_layers - 2))

    def plan(self, stack: RelationStack, rows: Tensor | None = None) -> NoEdges:  # noqa: ARG002
        return NoEdges(rows)

    def forward(self, x: Input, graph: RelationStack | NoEdges) -> Tensor:  # noqa: ARG002
        """Representations [N, hidden]; the graph is ignored."""
        z = torch.relu(self.input(Features.of(x)))
        for linear in self.linears:
            z = torch.relu(linear(drop(z, self.dropout, self.training)))
        return z


@describes(MLP, "MLP")
class MLPOptions(BackboneOptions):
    """The keys of MLP."""

    name: Literal["mlp"]

    @property
    def num_hops(self) -> int:
        return 0
