"""The keys of mini-batches."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from fastgtn.training.sections import Count, Section


def _as_list(value: Any) -> Any:
    """One fan-out stands for all hops."""
    return (value,) if isinstance(value, str | int) and not isinstance(value, bool) else value


Fanouts = Annotated[
    tuple[Count | Literal["all"], ...], BeforeValidator(_as_list), Field(strict=False, min_length=1)
]  # fmt: skip


class BatchOptions(Section):
    """How many targets a step has, and how the graph around them is sampled."""

    size: Annotated[int, Field(ge=0)] = 0
    sampler: Literal["neighbor", "layer"] = "neighbor"
    fanouts: Fanouts = (15, 10)
    per_relation: bool = False
    budget: Count = 512
    prefetch: Annotated[int, Field(ge=0)] = 2
    eval: Literal["auto", "full", "batches"] = "auto"

    def fanouts_of(self, hops: int) -> list[int | None]:
        """One number per hop, None for all edges; the last one goes on, numbers beyond the hops are not used.

        With as many rounds as hops, no row is ever read that has drawn nothing.
        """
        given = [None if fanout == "all" else fanout for fanout in self.fanouts]
        return (given + given[-1:] * hops)[: max(hops, 1)]
