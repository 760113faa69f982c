"""Groups of config keys, and the kinds of numbers that they hold."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A group of keys: unknown ones are refused, and nothing changes after the check."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())
