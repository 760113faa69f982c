"""Groups of config keys, the kinds of numbers that they hold, and the ranges in which they are searched."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticKnownError

Share = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10**9)]
Layers = Annotated[
    int, Field(ge=1, le=100)
]  # also used for hops: every layer is built, so a typing mistake must not take hours
Seed = Annotated[int, Field(ge=0, lt=2**62)]  # the limit of torch, with room for the seeds of further runs

Preset = Literal["ours", "paper", "authors-2022"]
Values = dict[str, Any]  # nested, as in a TOML file


class Section(BaseModel):
    """A section of config keys. Unknown keys are refused, and a section is immutable."""

    # deferred: the checks of a section are built when it is used, since a config uses the section of one model only
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=(), defer_build=True)


@dataclass(frozen=True)
class Free:
    """In the annotation of a key: the key changes how a run is executed, but not the weights of a seed."""


@dataclass(frozen=True)
class Numbers:
    """In the annotation of a key: `fastgtn tune` draws any number between two, or one on a grid of `step`."""

    low: float
    high: float
    log: bool = False
    step: float | None = None


@dataclass(frozen=True)
class Choice:
    """In the annotation of a key: `fastgtn tune` draws one of a few values."""

    values: tuple[Any, ...]


def one_of(names: Callable[[], Iterable[str]]) -> AfterValidator:
    """Accept the names that are known at the time when a config is checked."""

    def check(name: str) -> str:
        known = list(names())
        if name not in known:
            raise PydanticKnownError("literal_error", {"expected": ", ".join(known)})
        return name

    return AfterValidator(check)


def merged(below: Values, above: Values) -> Values:
    """Two nested sets of values; the second wins."""
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        result[key] = merged(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return result
