"""The sections of graph.toml: tables of node types, tables of relations, and the task."""

import datetime
import re
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    field_validator,
    model_validator,
)

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
        time: A column with the time at which each node appeared.
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
        summarize: Whether the feature columns of a table whose rows belong to one node each are summarised to that
            node; by default where the node has features, or is the target of the task.
        split: A column whose values, or ranges, become a relation each.
        time: A column of dates or numbers, the time at which each edge appeared.
        where: Only the rows for which this holds are edges: a column, a comparison and a value, as in "rating >= 4".
    """

    source: End
    target: End
    weight: str | None = None
    reverse: bool | None = None
    features: list[str] | dict[str, FeatureKind | Feature] = []
    summarize: bool | None = None
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
        time: The column with the time at which each link appeared.
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
        relations, link = dict(values.get("relations", {})), str(task["link"])
        given = {"where": task.get("positive"), "time": task.get("time")}
        if isinstance(relations.get(link), dict):
            relations[link] = relations[link] | {key: value for key, value in given.items() if value is not None}
        rest = {key: value for key, value in values.items() if key != "task"}
        return rest | {"relations": relations, "link_task": task}


_CONDITION = re.compile(r"\s*([^<>=!]+?)\s*(>=|<=|==|!=|=|>|<)\s*(.+?)\s*")


def parsed_condition(text: str) -> tuple[str, str, str]:
    """The column, the comparison and the value of a condition such as "rating >= 4"."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f'a condition is a column, a comparison and a value, as in "rating >= 4", not "{text}"')
    column, comparison, value = (part.strip() for part in found.groups())
    return column, "==" if comparison == "=" else comparison, value.strip("'\"")
