"""Read graph.toml; every mistake is answered with its place and the nearest name."""

import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fastgtn.data.tables.config.sections import (
    End,
    Feature,
    Fractions,
    Graph,
    GraphConfig,
    LinkTable,
    NodeTable,
    RelationTable,
    Task,
)
from fastgtn.errors import InputError, check_regular, nearest

# pydantic's words, not the user's
_UNION_BRANCH = re.compile(
    r"(Fractions|Feature|SplitBy|TimeColumn|AsOf|str|float|date|datetime)$|(literal|list|dict)\["
)


def read_config(path: Path) -> GraphConfig:
    """Read and check graph.toml; a wrong key or node type is answered with the nearest one."""
    try:
        check_regular(path)
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (ValueError, OSError, RecursionError) as error:
        raise InputError(f"{path} is not readable TOML: {error}") from None
    if "link_task" in values:
        raise InputError(f'{path}: a link task is a section [task] with the key "link", not [link_task].')
    try:
        config = GraphConfig.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{path}: {_explain(error)}") from None
    _check_names(config, path)
    return config


def _explain(error: ValidationError) -> str:
    """One line for the most telling of pydantic's complaints."""
    problems = error.errors()
    deepest = max(problems, key=lambda p: len(p["loc"]))  # of a union, the branch that the user meant
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), deepest)
    where = [str(part) for i, part in enumerate(problem["loc"]) if i < 2 or not _UNION_BRANCH.match(str(part))]
    keys = _keys(where)
    where = ["task" if part == "link_task" else part for part in where]  # what the user wrote
    section, key = ".".join(where[:-1]) or "the top level", where[-1] if where else ""
    if problem["type"] == "extra_forbidden":
        return f'[{section}] has no key "{key}"; {nearest(key, keys)}'
    if problem["type"] == "missing":
        return f'[{section}] needs the key "{key}"'
    message = problem["msg"].removeprefix("Value error, ")
    return f"[{'.'.join(where)}]: {message}" + (
        "" if problem["type"] == "value_error" else f", got {problem['input']!r}"
    )


def _keys(where: list[str]) -> list[str]:
    """The keys that exist at the place of a wrong one."""
    sections: dict[tuple[str, int], Any] = {
        ("graph", 2): Graph,
        ("nodes", 3): NodeTable,
        ("nodes", 5): Feature,
        ("relations", 3): RelationTable,
        ("relations", 4): End,
        ("relations", 5): Feature,
        ("link_task", 2): LinkTable,
        ("task", 2): Task,
        ("task", 3): Fractions,
    }
    found = sections.get((where[0], len(where)), GraphConfig) if where else GraphConfig
    return [name for name in found.model_fields if name != "link_task"]  # made from [task], not written


def _check_names(config: GraphConfig, path: Path) -> None:
    if not config.nodes:
        raise InputError(f"{path} has no node types: add a section [nodes.NAME].")
    link = config.link_task.link if config.link_task else None
    if link is not None and link not in config.relations:
        raise InputError(f'{path}: task.link names the relation "{link}"; {nearest(link, config.relations)}')
    used = [
        (f"relations.{name}.{side}", end.type)
        for name, relation in config.relations.items()
        for side, end in (("source", relation.source), ("target", relation.target))
    ]
    for where, node_type in [*used, *([("task.target", config.task.target)] if config.task else [])]:
        if node_type not in config.nodes:
            raise InputError(
                f'{path}: {where} names the node type "{node_type}", which has no section; '
                + nearest(node_type, config.nodes)
            )
    for label in config.task.label_columns if config.task else ():
        if config.task and label in config.nodes[config.task.target].feature_columns:
            raise InputError(
                f'{path}: the label "{label}" is also a feature, so the model would read the answer from it: remove it '
                "from the features."
            )

    for name, relation in config.relations.items():
        if relation.source == relation.target:
            raise InputError(
                f'{path}: relations.{name} takes source and target from the same column "{relation.source.column}", '
                "so every edge would connect a node to itself: give the column of each end."
            )
        if name.startswith("rev_") and name.removeprefix("rev_") in config.relations:
            raise InputError(
                f'{path}: the relation "{name}" has the name of the reverse that is added to another one: rename it.'
            )
