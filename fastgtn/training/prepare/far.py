"""How many hops a model needs to read from far away, where the filters give every relation the same weight."""

from collections.abc import Sequence

from fastgtn.config import GraphOptions
from fastgtn.relations import IDENTITY, Relation

FAR_STEPS = 5.0  # that a walk takes on average: more than the four that screening looks up to
MOST_HOPS = 24


def far_length(relations: Sequence[Relation], target: str, options: GraphOptions) -> int:
    """The number of hops after which a walk from the target has taken `FAR_STEPS` steps on average.

    In many hops a walk stays where it is: along the identity, and where empty rows are self-loops also along every
    relation that does not lead to its node type.
    """
    has_loops = options.empty_rows == "self" and options.normalize != "none"
    at, steps = {target: 1.0}, 0.0
    for hop in range(1, MOST_HOPS):
        after: dict[str, float] = {}
        for node_type, share in at.items():
            ways = [relation for relation in relations if relation != IDENTITY and relation.target == node_type]
            choices = len(relations) if has_loops else len(ways) + (IDENTITY in relations)
            for relation in ways:
                after[relation.source] = after.get(relation.source, 0.0) + share / choices
            steps += share * len(ways) / max(choices, 1)
            after[node_type] = after.get(node_type, 0.0) + share * (1 - len(ways) / max(choices, 1))
        at = after
        if steps >= FAR_STEPS:
            return hop
    return MOST_HOPS
