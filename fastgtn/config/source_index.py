"""Names of models and keys of a config, read from the source of the options: importing them would import torch.

The command line needs them for its help and for completion. The classes remain the only source.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fastgtn.config.toml import flat
from fastgtn.errors import InputError, nearest

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = ("config", "nn", "relations/sampling")
# A class of options up to the next line that is not indented. Parsing these few lines instead of whole files takes
# half the time, at every press of Tab.
_CLASS = re.compile(r"^class \w+\((?:Section|.*Options\b).*:\n(?:[ \t].*\n|\n)+", re.MULTILINE)
_ROOT, _MODEL = "Config", "BackboneOptions"  # the config itself, and what the options of every model inherit from


class _Section(NamedTuple):
    """A class of options: its module, bases, the annotation of each of its keys, and the names of variants."""

    name: str
    module: str
    bases: tuple[str, ...]
    fields: dict[str, ast.expr]
    variants: dict[str, Any]


@cache
def model_variants() -> dict[str, dict[str, Any]]:
    """The names of models and of their variants, and what each says in the section `[model]`."""
    found: dict[str, dict[str, Any]] = {}
    for name, section in _models().items():
        variants = section.variants or {name: {"model": {}}}
        found |= {label: {"name": name, **variant["model"]} for label, variant in variants.items()}
    return found


def model_modules() -> dict[str, str]:
    """The values that `model.name` may have, and the module that describes each model."""
    return {name: section.module for name, section in _models().items()}


@cache
def config_keys() -> tuple[str, ...]:
    """All full keys that some config may have, such as ``fit.epochs`` and ``model.non_local.enabled``."""
    return tuple(dict.fromkeys(_keys(_ROOT, "")))


def check_keys(values: Mapping[str, Any]) -> None:
    """Refuse nested values with a key that no config has, in the words of the config itself."""
    known = [key.split(".") for key in config_keys()]
    for full_key in flat(values):
        names = full_key.split(".")
        # a table as a value has more names than its key; a value in the place of a section has fewer
        if not any(all(a == b for a, b in zip(names, key, strict=False)) for key in known):
            depth = max(d for key in known for d in range(len(names)) if names[:d] == key[:d])
            raise InputError(unknown_key(names[: depth + 1], {k[depth] for k in known if k[:depth] == names[:depth]}))


def unknown_key(names: Sequence[str], known: Iterable[str]) -> str:
    """The error message for a key whose last name is unknown in its section."""
    key, section = ".".join(names), ".".join(names[:-1])
    where = f" in [{section}]" if section else ""
    return f'no config key "{key}"{where}; {nearest(names[-1], known)}'


def _keys(section: str, prefix: str) -> Iterator[str]:
    for name, annotation in _inherited(section).items():
        kind = _head(annotation)
        if prefix == "" and name == "model":
            for model in _sections():
                if model == _MODEL or _is_model(model):
                    yield from _keys(model, "model.")
        elif kind in _sections():
            yield from _keys(kind, f"{prefix}{name}.")
        else:
            yield prefix + name


def _inherited(name: str) -> dict[str, ast.expr]:
    """The keys of a section and of the sections that it inherits from."""
    section = _sections().get(name)
    if section is None:
        return {}
    fields: dict[str, ast.expr] = {}
    for base in section.bases:
        fields |= _inherited(base)
    return fields | section.fields


@cache
def _models() -> dict[str, _Section]:
    """The options of each model, by the value of `model.name`."""
    found: dict[str, _Section] = {}
    for section in _sections().values():
        annotation = section.fields.get("name") if _is_model(section.name) else None
        if isinstance(annotation, ast.Subscript) and _head(annotation) == "Literal":
            found[ast.literal_eval(annotation.slice)] = section
    return found


def _is_model(name: str) -> bool:
    bases = _sections()[name].bases
    return any(base == _MODEL or (base in _sections() and _is_model(base)) for base in bases)


@cache
def _sections() -> dict[str, _Section]:
    """All classes of options in the source, by name."""
    found: dict[str, _Section] = {}
    for folder in _FOLDERS:
        for path in sorted((_PACKAGE / folder).rglob("*.py"), key=lambda path: (len(path.parts), path)):
            module = ".".join((_PACKAGE.name, *path.relative_to(_PACKAGE).with_suffix("").parts))
            for text in _CLASS.findall(path.read_text(encoding="utf-8")):
                section = _section(ast.parse(text).body[0], module)
                found[section.name] = section
    return found


def _section(node: ast.stmt, module: str) -> _Section:
    assert isinstance(node, ast.ClassDef)
    lines = [line for line in node.body if isinstance(line, ast.AnnAssign)]
    values = {_head(line.target): line for line in lines}
    fields = {name: line.annotation for name, line in values.items() if _head(line.annotation) != "ClassVar"}
    variants = values["variants"].value if "variants" in values else None
    literal = {} if variants is None else ast.literal_eval(variants)
    return _Section(node.name, module, tuple(map(_head, node.bases)), fields, literal)


def _head(node: ast.expr) -> str:
    """The name of a type without what stands in its brackets; empty for anything else."""
    inner = node.value if isinstance(node, ast.Subscript) else node
    return inner.id if isinstance(inner, ast.Name) else ""
