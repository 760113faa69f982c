"""The format of graph.toml: tables of node types, tables of relations, and the task."""

import datetime
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from fastgtn.errors import InputError, check_regular, nearest

FeatureKind = Literal["number", "category", "code", "text", "list", "vector", "date"]


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
    """How one column becomes numbers.

    Args:
        standardize, log, fill: Of numbers; by default the logarithm is taken of long tails, and the median fills gaps.
        min_count, max_words: Of texts and lists.
        format: Of dates: as in "%d.%m.%Y", "unix" (seconds since 1970) or "unix_ms".
    """

    kind: FeatureKind | None = None
    standardize: bool = True
    log: bool | None = None
    fill: Literal["median", "mean"] | float | None = None
    format: str | None = None
    min_count: PositiveInt | None = None
    max_words: PositiveInt | None = None


def _feature_columns(features: list[str] | dict[str, FeatureKind | Feature]) -> dict[str, Feature]:
    if isinstance(features, list):
        return {column: Feature() for column in features}
    return {c: f if isinstance(f, Feature) else Feature(kind=f) for c, f in features.items()}


class TimeColumn(_Section):
    """A column of dates, or of numbers that grow with time."""

    column: str
    format: str | None = None


def _time_column(value: str | TimeColumn | None) -> TimeColumn | None:
    return TimeColumn(column=value) if isinstance(value, str) else value


class NodeTable(Source):
    """One node type.

    Args:
        time: A column that says when a node came to be.
    """

    id: str
    id_type: Literal["auto", "integer", "text"] = "auto"
    name: str | None = None
    features: list[str] | dict[str, FeatureKind | Feature] = []
    time: str | TimeColumn | None = None

    @property
    def feature_columns(self) -> dict[str, Feature]:
        """Each feature column with its settings; the kind is None where it is to be inferred."""
        return _feature_columns(self.features)

    @property
    def time_column(self) -> TimeColumn | None:
        return _time_column(self.time)


class End(_Section):
    """One end of a relation: the node type, and the column with its ids."""

    type: str
    column: str


class SplitBy(_Section):
    """One relation for each value of a column, or for each of several ranges of a number."""

    column: str
    bins: Annotated[int, Field(ge=2, le=20)] | None = None


class RelationTable(Source):
    """One relation; every row is an edge from source to target.

    Args:
        features: Columns that are summarised to both ends as features of the nodes.
        split: A column whose values, or ranges, become a relation each.
        time: A column of dates or numbers that says when an edge came to be.
        where: Only the rows for which this holds are edges: a column, a comparison and a value, as in "rating >= 4".
    """

    source: End
    target: End
    weight: str | None = None
    reverse: bool | None = None
    features: list[str] | dict[str, FeatureKind | Feature] = []
    split: str | SplitBy | None = None
    time: str | TimeColumn | None = None
    where: str | None = None

    @property
    def feature_columns(self) -> dict[str, Feature]:
        """Each feature column with its settings; the kind is None where it is to be inferred."""
        return _feature_columns(self.features)

    @property
    def columns(self) -> list[str]:
        """All columns that are read besides those of the ends."""
        split = self.split.column if isinstance(self.split, SplitBy) else self.split
        time = None if self.time_column is None else self.time_column.column
        condition = None if self.where is None else parsed_condition(self.where)[0]
        return [*self.feature_columns, *(n for n in (self.weight, split, time, condition) if n is not None)]

    @property
    def time_column(self) -> TimeColumn | None:
        return _time_column(self.time)

    @field_validator("where")
    @classmethod
    def _can_be_read(cls, text: str | None) -> str | None:
        if text is not None:
            parsed_condition(text)
        return text


class Fractions(_Section):
    """Shares of the labelled nodes, drawn by the seed, or by time: the earliest for training, the latest as test."""

    train: float
    val: float
    test: float
    seed: NonNegativeInt = 0
    by: Literal["random", "time"] = "random"


class AsOf(TimeColumn):
    """The moment of each node, which may be rounded down, so that fewer graphs are needed."""

    round: Literal["exact", "day", "month", "year"] = "exact"


class Task(_Section):
    """What is predicted: a column of the target type's table, or several columns of numbers.

    Args:
        as_of: The column with the moment of each node, or one date or number for all. Later edges are hidden.
    """

    target: str
    label: str | list[str]
    labels: Literal["auto", "single", "multi", "ranking", "number"] = "auto"
    split: str | Fractions
    as_of: AsOf | datetime.datetime | datetime.date | float | None = None

    @field_validator("as_of", mode="before")
    @classmethod
    def _column_name(cls, value: Any) -> Any:
        return {"column": value} if isinstance(value, str) else value

    @property
    def label_columns(self) -> list[str]:
        return [self.label] if isinstance(self.label, str) else self.label

    @property
    def columns(self) -> list[str]:
        """All columns that the task reads."""
        return [*self.label_columns, *([self.split] if isinstance(self.split, str) else [])]


class LinkTable(_Section):
    """A link task: which relation is predicted.

    Args:
        link: The name of the relation.
        positive: Only these rows of its table are links, as in "rating >= 4".
        time: The column that says when a link came to be.
        split: "random", or "time" if there is a time.
    """

    link: str
    positive: str | None = None
    time: str | TimeColumn | None = None
    split: Literal["random", "time"] | None = None
    negatives: Literal["uniform", "degree", "two_hop"] = "uniform"

    @property
    def split_by(self) -> str:
        return self.split or ("random" if self.time is None else "time")


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
    link_task: LinkTable | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_link_task(cls, values: Any) -> Any:
        """A section [task] with the key `link` is a link task, whose conditions belong to the relation."""
        task = values.get("task") if isinstance(values, dict) else None
        if not isinstance(task, dict) or "link" not in task:
            return values
        found = LinkTable.model_validate(task)
        relations = dict(values.get("relations", {}))
        if found.link not in relations:
            raise ValueError(f'task.link names the relation "{found.link}"; {nearest(found.link, relations)}')
        given = {"where": found.positive, "time": task.get("time")}
        chosen = {key: value for key, value in given.items() if value is not None}
        relations[found.link] = dict(relations[found.link]) | chosen
        rest = {key: value for key, value in values.items() if key != "task"}
        return rest | {"relations": relations, "link_task": task}


def parsed_condition(text: str) -> tuple[str, str, str]:
    """The column, the comparison and the value of a condition such as "rating >= 4"."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f'a condition is a column, a comparison and a value, as in "rating >= 4", not "{text}"')
    column, comparison, value = (part.strip() for part in found.groups())
    return column, "==" if comparison == "=" else comparison, value.strip("'\"")


def read_config(path: Path) -> GraphConfig:
    """Read and check graph.toml; a wrong key or node type is answered with the nearest one."""
    try:
        check_regular(path)
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (ValueError, OSError, RecursionError) as error:
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


_CONDITION = re.compile(r"\s*([^<>=!]+?)\s*(>=|<=|==|!=|=|>|<)\s*(.+?)\s*")
# pydantic's words, not the user's
_UNION_BRANCH = re.compile(
    r"(Fractions|Feature|SplitBy|TimeColumn|AsOf|str|float|date|datetime)$|(literal|list|dict)\["
)


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
    for label in config.task.label_columns if config.task else ():
        if config.task and label in config.nodes[config.task.target].feature_columns:
            raise InputError(f'{path}: the label "{label}" is among the features; it would give itself away.')
    for name, relation in config.relations.items():
        if relation.source == relation.target:
            raise InputError(
                f'{path}: relations.{name} takes source and target from the same column "{relation.source.column}", '
                "so every edge would connect a node to itself: give the column of each end."
            )
        if name.startswith("rev_") and name.removeprefix("rev_") in config.relations:
            raise InputError(f'{path}: the relation name "{name}" is that of an added reverse; choose another.')
