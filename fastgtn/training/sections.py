"""Groups of config keys, and the kinds of numbers that they hold."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10**9)]
Layers = Annotated[int, Field(ge=1, le=100)]  # and hops: every one of them is built, so a slip must not take hours
Seed = Annotated[int, Field(ge=0, lt=2**62)]  # torch takes no larger ones; seeds of further runs are added


class Section(BaseModel):
    """A group of keys: unknown ones are refused, and nothing changes after the check."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())
