"""The format of graph.toml: its sections, and how it is read."""

from fastgtn.data.tables.config.read import read_config
from fastgtn.data.tables.config.sections import (
    AsOf,
    End,
    Feature,
    FeatureKind,
    Fractions,
    Graph,
    GraphConfig,
    LinkTable,
    NodeTable,
    RelationTable,
    Source,
    SplitBy,
    Task,
    TimeColumn,
    parsed_condition,
)

__all__ = [
    "AsOf",
    "End",
    "Feature",
    "FeatureKind",
    "Fractions",
    "Graph",
    "GraphConfig",
    "LinkTable",
    "NodeTable",
    "RelationTable",
    "Source",
    "SplitBy",
    "Task",
    "TimeColumn",
    "parsed_condition",
    "read_config",
]
