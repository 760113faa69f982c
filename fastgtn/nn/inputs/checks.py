"""Checks that features, graph and model fit together."""

from collections.abc import Sequence

from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.nn.inputs.features import Features
from fastgtn.relations import Hops, Relation, RelationStack

Input = Tensor | Features
Graph = RelationStack | Hops


def as_sizes(in_features: int | Features) -> tuple[dict[str, int], dict[str, int]]:
    """The feature widths and embedding counts for which an :class:`InputLinear` is built."""
    if isinstance(in_features, int):
        if in_features < 1:
            raise InputError(f"in_features must be at least 1, but got {in_features}.")
        return {"shared": in_features}, {}
    return in_features.widths, in_features.embedded


def plan_hops(x: Input, graph: Graph, relations: Sequence[Relation], count: int) -> tuple[Features, Hops]:
    """Check that features, graph and model fit together."""
    features = Features.of(x)
    hops = graph.hops(count) if isinstance(graph, RelationStack) else graph
    hops.require_relations(relations)
    if len(hops) != count:
        raise InputError(
            f"the model takes {count} hops, but the plan has {len(hops)}. Use stack.hops(model.num_hops, rows)."
        )
    if features.num_rows != hops.num_inputs:
        hint = "" if hops.inputs is None else " Select them with features.select(hops.inputs)."
        raise InputError(f"there are {features.num_rows} feature rows for {hops.num_inputs} nodes.{hint}")
    return features, hops


def check_hyper_parameters(*, num_layers: int, dropout: float) -> None:
    """Refuse invalid numbers."""
    if num_layers < 1:
        raise InputError(f"num_layers must be at least 1, but got {num_layers}.")
    if not 0 <= dropout < 1:
        raise InputError(f"dropout must lie in [0, 1), but got {dropout}.")
