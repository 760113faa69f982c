"""The features of new nodes: columns of a table with the stored encoding, or plain numbers."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from fastgtn.data.tables.columns import Array
from fastgtn.data.tables.edge_features import summaries
from fastgtn.data.tables.encoders.fitting import apply_columns, apply_summaries, joined
from fastgtn.data.tables.encoding import Encoding
from fastgtn.data.tables.problems import Problems
from fastgtn.data.tables.times import Clock
from fastgtn.errors import InputError, nearest
from fastgtn.runs.scoring.new.columns import table_of
from fastgtn.runs.scoring.new.edges import EdgeRows
from fastgtn.runs.scoring.new.request import NewNode


def encoded_features(nodes: Sequence[NewNode], edges: Sequence[EdgeRows], target: str, encoding: Encoding) -> Tensor:
    """The feature matrix of nodes that are given as rows of a table, encoded as in training."""
    known, where = encoding.nodes[target], f"nodes.{target}"
    own = known.in_table
    rows: list[Mapping[str, object]] = []
    for node in nodes:
        if not isinstance(node.features, dict) and (own or node.features is not None):
            listed = ", ".join(column.column for column in own)
            raise InputError(f'node "{node.id}": features are the columns of the table: {listed}.')
        rows.append(node.features if isinstance(node.features, dict) else {})
    stored = {column.column: column.stored_as for column in own}
    names = [f'node "{node.id}"' for node in nodes]
    table = table_of(rows, stored, names, what=f"features of {target} nodes")
    problems = Problems()
    encoded = apply_columns(table, known.own, problems, where=where)
    problems.raise_any()
    found = _summaries(edges, target, encoding, len(nodes))
    encoded += apply_summaries(known.of_edges, found, len(nodes), where=where)
    return joined(encoded, what=f"[{where}]: features", is_sparse=known.is_sparse)


def _summaries(
    edges: Sequence[EdgeRows], target: str, encoding: Encoding, num_nodes: int
) -> dict[str, dict[str, Array]]:
    """The summaries of the new nodes' edges, by the name of the relation, as when a graph is built."""
    found: dict[str, dict[str, Array]] = {}
    titles = {column.relation for column in encoding.nodes[target].columns if column.relation is not None}
    for title in titles:
        is_outward = title not in encoding.edges
        name = title.removesuffix("_out") if is_outward else title
        fitted = encoding.edges[name]
        rows = next((each for each in edges if each.name == name), None)
        if rows is None or not len(rows.new):
            found[title] = {"count": np.zeros(num_nodes)}
            continue
        if fitted.many is not None:
            raise InputError(
                f'edges of "{name}" cannot be sent: the model reads sums over the table at their other end. '
                "Score such nodes with predict --tables."
            )
        mine = np.ones(len(rows.new), bool)
        if rows.relation.source == rows.relation.target:
            mine = rows.is_source if is_outward else ~rows.is_source
        table, new = rows.table.filter(pa.array(mine)), rows.new[mine]
        where = f"relations.{name}"
        times = Clock().read(table, fitted.time_column, where)
        found[title] = summaries(table, fitted, new, num_nodes, times=times, where=where)
    return found


def plain_features(nodes: Sequence[NewNode], width: int, names: Sequence[str]) -> Tensor:
    """The feature matrix of nodes that are given as numbers, in the order of the columns or by their names."""
    rows = []
    for node in nodes:
        values = node.features
        if isinstance(values, dict) and names:
            values = _by_name(values, names, f'node "{node.id}"')
        if not isinstance(values, list) or len(values) != width:
            came = "none" if values is None else "names" if isinstance(values, dict) else f"{len(values)} numbers"
            raise InputError(f'node "{node.id}": features are a list of {width} numbers, but got {came}.')
        rows.append(values)
    matrix = torch.tensor(rows, dtype=torch.float64).float()
    if not matrix.isfinite().all():
        raise InputError("a feature is too large for 32 bits.")
    return matrix


def no_features(nodes: Sequence[NewNode], target: str) -> None:
    """Refuse features of nodes whose type has learned embeddings."""
    for node in nodes:
        if node.features:
            raise InputError(f'node "{node.id}": {target} nodes have no features; leave them out.')


def _by_name(values: Mapping[str, object], names: Sequence[str], where: str) -> list[float]:
    unknown = [name for name in values if name not in names]
    if unknown:
        raise InputError(f'{where}: no feature "{unknown[0]}"; {nearest(unknown[0], names)}')
    missing = [name for name in names if name not in values]
    if missing:
        raise InputError(f'{where}: the feature "{missing[0]}" is missing.')
    found = [values[name] for name in names]
    wrong = [value for value in found if isinstance(value, bool) or not isinstance(value, int | float)]
    if wrong:
        raise InputError(f"{where}: features are numbers, but got {wrong[0]!r}.")
    return [float(value) for value in found]  # type: ignore[arg-type]
