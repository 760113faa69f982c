"""The linear part of a model as walks, hop by hop."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.nn import Backbone, Features, MetaPathModel, NodeClassifier
from fastgtn.nn.non_local import NON_LOCAL
from fastgtn.relations import Hops, RelationStack
from fastgtn.relations.operator import Edges
from fastgtn.relations.paths.decomposition import Decomposition
from fastgtn.relations.paths.walks import Array, Walks

Model = NodeClassifier | MetaPathModel


def backbone_of(model: NodeClassifier | Backbone) -> MetaPathModel:
    """The part that learns meta-paths."""
    backbone = model.backbone if isinstance(model, NodeClassifier) else model
    if not isinstance(backbone, MetaPathModel):
        raise InputError(
            f"only GTN and FastGTN learn meta-paths, but the model is a {type(backbone).__name__}. "
            "Train one of them to rank meta-paths."
        )
    return backbone


def walks_of(
    model: Model,
    stack: RelationStack,
    *,
    layer: int = 0,
    features: Features | Tensor | None = None,
    filters: Tensor | None = None,
) -> Walks:
    """The walks of one layer. With non-local operations the model is run once for their edges at each hop.

    Args:
        filters: Weights [K, C, T] to use instead of those of the model.
    """
    backbone = backbone_of(model)
    stack.hops(1).require_relations(backbone.relations)
    stack.require_non_negative("a share of a meta-path")
    every = backbone.hop_filters()
    if not 0 <= layer < len(every):
        raise InputError(f"layer must lie in 0 … {len(every) - 1}, but got {layer}.")
    own = every[layer]
    alpha = own().detach() if filters is None else filters
    if bool((alpha < 0).any()):
        raise InputError("shares of meta-paths need filters ≥ 0, but some were fixed at negative numbers.")
    operators = (stack.operator,) * len(alpha)
    if NON_LOCAL in own.relations:
        place, T = own.relations.index(NON_LOCAL), len(own.relations)
        base = stack.operator.widened([t for t in range(T) if t != place], T)
        operators = tuple(base.with_edges(edges.at(place)) for edges in _non_local(backbone, stack, layer, features))
    hops = Hops(own.relations, operators, None, all_columns=True)
    return Walks.of(Decomposition.of(stack.node_types, stack.node_counts, hops), alpha)


def own_share(model: Model, totals: Array) -> float:
    """The mean share that γ gives to the own features of nodes with these degrees [n, C] in the learned graph."""
    return float(backbone_of(model).own_weight(torch.from_numpy(totals)).mean())


@torch.no_grad()
def _non_local(
    model: MetaPathModel, stack: RelationStack, layer: int, features: Features | Tensor | None
) -> list[Edges]:
    if features is None:
        raise InputError("the edges of non-local operations depend on features: pass features=….")
    modules = model.non_local_modules(layer)
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
