"""graph.toml: which tables are node types, which are relations, what is predicted."""

import re
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError, model_validator

from fastgtn.errors import InputError, nearest

FeatureKind = Literal["number", "category", "text", "list", "vector"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Section):
    """Where rows come from: a CSV or Parquet file, an SQL query over such files, or an SQLite database."""

    table: str | None = None
    sql: str | None = None
    database: str | None = None

    @model_validator(mode="after")
    def _one_of_table_and_sql(self) -> "Source":
        if (self.table is None) == (self.sql is None):
            raise ValueError("give either table (a file, or a table of the database) or sql")
        return self

    def __str__(self) -> str:
        return self.table if self.table and not self.database else self.database or "the query"


class Feature(_Section):
    """How one column becomes numbers; the counts are for text and list columns."""

    kind: FeatureKind | None = None
    standardize: bool = True
    min_count: PositiveInt | None = None
    max_words: PositiveInt | None = None


class NodeTable(Source):
    """One node type."""

    id: str
    id_type: Literal["auto", "integer", "text"] = "auto"
    name: str | None = None
    features: list[str] | dict[str, FeatureKind | Feature] = []

    @property
    def feature_columns(self) -> dict[str, Feature]:
        """Each feature column with its settings; the kind is None where it is to be inferred."""
        if isinstance(self.features, list):
            return {column: Feature() for column in self.features}
        return {c: f if isinstance(f, Feature) else Feature(kind=f) for c, f in self.features.items()}


class End(_Section):
    """One end of a relation: the node type, and the column with its ids."""

    type: str
    column: str


class RelationTable(Source):
    """One relation; every row is an edge from source to target."""

    source: End
    target: End
    weight: str | None = None
    reverse: bool | None = None


class Fractions(_Section):
    """Shares of the labelled nodes."""

    train: float
    val: float
    test: float
    seed: NonNegativeInt = 0


class Task(_Section):
    """What is predicted: a column of the target type's table."""

    target: str
    label: str
    labels: Literal["single", "multi", "ranking"] = "single"
    split: str | Fractions


class Graph(_Section):
    """Settings of the whole graph."""

    name: str = "graph"
    reverse: bool = False
    shared_features: bool = False


class GraphConfig(_Section):
    """A whole graph.toml."""

    graph: Graph = Graph()
    nodes: dict[str, NodeTable]
    relations: dict[str, RelationTable] = {}
    task: Task | None = None


def read_config(path: Path) -> GraphConfig:
    """Read and check graph.toml; a wrong key or node type is answered with the nearest one."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not readable TOML: {error}") from None
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
    section, key = ".".join(where[:-1]) or "the top level", where[-1] if where else ""
    if problem["type"] == "extra_forbidden":
        return f'[{section}] has no key "{key}"; {nearest(key, _keys(where))}'
    if problem["type"] == "missing":
        return f'[{section}] needs the key "{key}"'
    message = problem["msg"].removeprefix("Value error, ")
    return f"[{'.'.join(where)}]: {message}" + (
        "" if problem["type"] == "value_error" else f", got {problem['input']!r}"
    )


_UNION_BRANCH = re.compile(r"(Fractions|Feature|str)$|(literal|list|dict)\[")  # pydantic's, not the user's, words


def _keys(where: list[str]) -> list[str]:
    """The keys that exist at the place of a wrong one."""
    sections: dict[tuple[str, int], Any] = {
        ("graph", 2): Graph,
        ("nodes", 3): NodeTable,
        ("nodes", 5): Feature,
        ("relations", 3): RelationTable,
        ("relations", 4): End,
        ("task", 2): Task,
        ("task", 3): Fractions,
    }
    return list(sections.get((where[0], len(where)), GraphConfig).model_fields)


def _check_names(config: GraphConfig, path: Path) -> None:
    if not config.nodes:
        raise InputError(f"{path} has no node types: add a section [nodes.NAME].")
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
    if config.task and config.task.label in config.nodes[config.task.target].feature_columns:
        raise InputError(f'{path}: the label "{config.task.label}" is among the features; it would give itself away.')
    for name, relation in config.relations.items():
        if relation.source == relation.target:
            raise InputError(
                f'{path}: relations.{name} takes source and target from the same column "{relation.source.column}", '
                "so every edge would join a node to itself: name the column of each end."
            )
        if name.startswith("rev_") and name.removeprefix("rev_") in config.relations:
            raise InputError(f'{path}: the relation name "{name}" is that of an added reverse; choose another.')
