"""The models by name, as their entries describe them: importing this module registers all of them."""

from typing import Annotated, Any

from pydantic import PlainValidator, SerializeAsAny
from pydantic_core import PydanticKnownError

from fastgtn.nn import baselines, fast_gtn, gtn
from fastgtn.nn.backbone_options import BackboneOptions, registered

FastGTNOptions, GTNOptions = fast_gtn.FastGTNOptions, gtn.GTNOptions

__all__ = ["FastGTNOptions", "GTNOptions", "ModelOptions", "baselines", "options_by_name", "title_of"]


def options_by_name() -> dict[str, type[BackboneOptions]]:
    """The options class of each value of `model.name`."""
    return registered()


def title_of(label: str) -> str:
    """The displayed name of a model or variant; without an entry, the name in its config."""
    for name, entry in registered().items():
        if label in entry.variants:
            return str(entry.variants[label]["title"])
        if label == name:
            return entry.title
    return label


def _chosen(value: Any) -> BackboneOptions:
    """The section of the model that `name` names."""
    if isinstance(value, BackboneOptions):
        return value
    if not isinstance(value, dict):
        raise PydanticKnownError("dict_type")
    name = value.get("name")
    if not isinstance(name, str) or name not in registered():
        expected = ", ".join(f"'{known}'" for known in registered())
        context = {"discriminator": "'name'", "tag": str(name), "expected_tags": expected}
        raise PydanticKnownError("union_tag_invalid", context)
    return registered()[name].model_validate(value)


ModelOptions = Annotated[SerializeAsAny[BackboneOptions], PlainValidator(_chosen)]
