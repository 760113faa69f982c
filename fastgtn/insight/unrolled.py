"""A model seen as walks: what its linear part does, hop by hop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.models import GTN, FastGTN, Features, NodeClassifier
from fastgtn.models.fast_gtn import FastGTNLayer
from fastgtn.models.non_local import NON_LOCAL
from fastgtn.relations import RelationStack
from fastgtn.relations.operator import Edges
from fastgtn.relations.walks import Array, Walks

Model = NodeClassifier | FastGTN | GTN


def backbone_of(model: Model) -> FastGTN | GTN:
    """The part that learns meta-paths."""
    backbone = model.backbone if isinstance(model, NodeClassifier) else model
    if not isinstance(backbone, FastGTN | GTN):
        raise InputError(
            f"only GTN and FastGTN learn meta-paths, but the model is a {type(backbone).__name__}. "
            "Train one of them to rank meta-paths."
        )
    return backbone


def walks_of(model: Model, stack: RelationStack, *, layer: int = 0, features: Features | Tensor | None = None) -> Walks:
    """The walks of one layer. With non-local operations the model is run once for their edges at each hop."""
    backbone = backbone_of(model)
    stack.hops(1).require_relations(backbone.relations)
    stack.require_non_negative("a share of a meta-path")
    every = backbone.hop_filters()
    if not 0 <= layer < len(every):
        raise InputError(f"layer must lie in 0 … {len(every) - 1}, but got {layer}.")
    filters = every[layer]
    alpha = filters().detach()
    if bool((alpha < 0).any()):
        raise InputError("shares of meta-paths need filters ≥ 0, but some were fixed at negative numbers.")
    operators = [stack.operator] * len(alpha)
    if NON_LOCAL in filters.relations:
        place, T = filters.relations.index(NON_LOCAL), len(filters.relations)
        base = stack.operator.widened([t for t in range(T) if t != place], T)
        operators = [base.with_edges(edges.at(place)) for edges in _non_local(backbone, stack, layer, features)]
    return Walks.of(stack.node_types, stack.node_counts, filters.relations, operators, alpha)


def own_share(model: Model, totals: Array) -> float:
    """What γ gives to the own features of nodes with these degrees [n, C] of the learned graph, on average."""
    backbone = backbone_of(model)
    if isinstance(backbone, FastGTN):
        return float(fast_gtn_layer(backbone, 0).gamma)
    # the paper normalises a single filter only after adding γI; otherwise the learned graph has degrees 1 or 0
    degree = totals if backbone.path_length == 1 else (totals > 0).astype(float)
    whole = degree + backbone.gamma
    return float(np.where(whole > 0, backbone.gamma / np.where(whole > 0, whole, 1.0), 0.0).mean())


@torch.no_grad()
def _non_local(
    model: FastGTN | GTN, stack: RelationStack, layer: int, features: Features | Tensor | None
) -> list[Edges]:
    if features is None:
        raise InputError("the edges of non-local operations depend on features: pass features=….")
    modules = fast_gtn_layer(model, layer).non_local
    seen: dict[int, Edges] = {}

    def keep(number: int) -> Callable[..., None]:
        return lambda _module, _inputs, edges: seen.__setitem__(number, edges)

    handles = [module.register_forward_hook(keep(k)) for k, module in enumerate(modules)]
    was_training = model.training
    try:
        model.eval()(features, stack)
    finally:
        model.train(was_training)
        for handle in handles:
            handle.remove()
    return [seen[k] for k in range(len(modules))]


def fast_gtn_layer(model: FastGTN | GTN, number: int) -> FastGTNLayer:
    """One layer of a FastGTN."""
    layer = model.layers[number] if isinstance(model, FastGTN) else None
    assert isinstance(layer, FastGTNLayer)  # a GTN has neither layers of its own nor non-local operations
    return layer
