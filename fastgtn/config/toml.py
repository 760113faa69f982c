"""TOML in and out: configs, and single values from the command line."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fastgtn.errors import InputError, check_regular


def read(path: Path) -> dict[str, Any]:
    """The values of a TOML file."""
    try:
        check_regular(path)
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"the config file {path} does not exist. List the available ones with fastgtn ls") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}") from None


def dump(values: dict[str, Any]) -> str:
    """Nested values as TOML; None is left out, as TOML has no word for it."""
    return "\n".join(_lines(values, ())).strip() + "\n"


def settings(assignments: Iterable[str]) -> dict[str, Any]:
    """From ``["model.path_length=3", …]`` to nested values; values are TOML, and bare words are strings."""
    result: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        names = [name.strip() for name in key.split(".")]
        if not equals or not all(names):
            raise InputError(f'--set takes key=value, such as model.path_length=3, but got "{assignment}".')
        section = result
        for name in names[:-1]:
            section = section.setdefault(name, {})
            if not isinstance(section, dict):
                raise InputError(f'--set {assignment}: "{name}" was already set to a value, so it cannot contain keys.')
        section[names[-1]] = _value(text.strip())
    return result


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by their full keys: ``model.hidden``."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{key}.")
        else:
            result[prefix + key] = value
    return result


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by their full keys as nested values again."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        *sections, last = key.split(".")
        inner = result
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = value
    return result


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError, RecursionError):
        return text


def _lines(values: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    lines = [f"{key} = {_literal(v)}" for key, v in values.items() if v is not None and not isinstance(v, dict)]
    for key, value in values.items():
        if isinstance(value, dict):
            inner = (*path, key)
            lines += ["", f"[{'.'.join(inner)}]", *_lines(value, inner)]
    return lines


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_literal(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
