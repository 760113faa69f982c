"""The models by name, as their entries describe them. Besides FastGTN, only a model that is asked for is imported."""

from importlib import import_module
from typing import Annotated, Any

from pydantic import PlainValidator, SerializeAsAny
from pydantic_core import PydanticKnownError

from fastgtn.config.source_index import model_modules
from fastgtn.nn.backbone_options import BackboneOptions
from fastgtn.nn.entries import registered
from fastgtn.nn.fast_gtn import FastGTNOptions

__all__ = ["FastGTNOptions", "ModelOptions", "options_by_name", "options_of", "title_of"]


def options_of(name: str) -> type[BackboneOptions] | None:
    """The options class of a value of `model.name`; None if there is no such model."""
    if name not in registered() and name in model_modules():
        import_module(model_modules()[name])
    return registered().get(name)


def options_by_name() -> dict[str, type[BackboneOptions]]:
    """The options class of each value of `model.name`."""
    for module in model_modules().values():
        import_module(module)
    return registered()


def title_of(label: str) -> str:
    """The displayed name of a model or variant; without an entry, the name in its config."""
    for name, entry in options_by_name().items():
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
    entry = options_of(name) if isinstance(name, str) else None
    if entry is None:
        expected = ", ".join(f"'{known}'" for known in options_by_name())
        context = {"discriminator": "'name'", "tag": str(name), "expected_tags": expected}
        raise PydanticKnownError("union_tag_invalid", context)
    return entry.model_validate(value)


ModelOptions = Annotated[SerializeAsAny[BackboneOptions], PlainValidator(_chosen)]
