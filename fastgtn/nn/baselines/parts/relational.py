"""Shared parts of convolutions over typed relations."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from fastgtn.errors import InputError
from fastgtn.nn.backbone import Backbone
from fastgtn.nn.baselines.parts.edge_list import EdgeList
from fastgtn.nn.inputs.checks import as_sizes, check_hyper_parameters
from fastgtn.nn.inputs.encoders import Encoder, InputLinear
from fastgtn.nn.inputs.features import Features
from fastgtn.relations import IDENTITY, Relation, RelationStack


class RelationalBackbone(Backbone):
    """Encoder and convolutions over the relations of a schema."""

    def __init__(
        self,
        in_features: int | Features,
        hidden: int,
        relations: Sequence[Relation],
        convs: Sequence[nn.Module],
        *,
        dropout: float,
        encoder: Encoder,
    ) -> None:
        super().__init__()
        check_hyper_parameters(num_layers=len(convs), dropout=dropout)
        self.dropout, self.out_features = dropout, hidden
        self.relations = tuple(relations)
        self.input = InputLinear(*as_sizes(in_features), hidden, dropout=dropout, encoder=encoder)
        self.convs = nn.ModuleList(convs)

    @property
    def num_hops(self) -> int:
        return len(self.convs)

    def edges_toward(self, stack: RelationStack, rows: Tensor | None) -> EdgeList:
        """The typed edges around the rows; a stack with other relations is refused."""
        stack.hops(1).require_relations(self.relations)
        return EdgeList.of(stack).toward(rows, self.num_hops)


def proper_relations(relations: Sequence[Relation]) -> list[Relation]:
    """All but the identity."""
    proper = [relation for relation in relations if relation != IDENTITY]
    if not proper:
        raise InputError(
            "the graph has no relations, but this model learns a map for each relation: use another model."
        )
    return proper
