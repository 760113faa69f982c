"""From the users' ids to node numbers: whole numbers or text, never a mixture."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastgtn.data.tables.columns import WHOLE_NUMBER, Array, is_list, is_text
from fastgtn.errors import InputError


@dataclass(frozen=True)
class NodeIds:
    """The ids of one node type in sorted order: the place of an id is the node's number."""

    node_type: str
    ids: pa.Array

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_integer(self) -> bool:
        """True for whole numbers, False for text."""
        return bool(pa.types.is_int64(self.ids.type))

    def to_numpy(self) -> Array:
        """int64, or numpy text."""
        return np.asarray(self.ids) if self.is_integer else np.array(self.ids.to_pylist(), dtype=str)

    def numbers_of(self, column: pa.ChunkedArray, *, from_csv: bool, forced: bool, what: str) -> Array:
        """Node numbers of a relation's ids.

        Args:
            from_csv: The column is text without a type: it takes the type of the node ids.
            forced: The user has stated the type of the ids.
        """
        _no_missing(column, what)
        wanted = "integer" if self.is_integer else "text"
        column = _from_float(column)
        if is_text(column) == self.is_integer and not (from_csv or forced):
            raise InputError(
                f'{what} holds {"text" if is_text(column) else "whole numbers"} but the ids of "{self.node_type}" are '
                f"{'whole numbers' if self.is_integer else 'text'}; make them alike, or set id_type = "
                f'"text" (or "integer") in [nodes.{self.node_type}] to have both converted.'
            )
        found = pc.index_in(_converted(column, wanted, what, unknown_to=self.node_type), value_set=self.ids)
        if found.null_count:
            row = int(np.flatnonzero(np.asarray(found.is_null()))[0])
            raise InputError(
                f'{what} names nodes that are not in "{self.node_type}" in {found.null_count} of {len(column)} rows, '
                f"such as {column[row].as_py()!r} in row {row + 1}; add these nodes or leave out the rows."
            )
        return np.asarray(found.combine_chunks()).astype(np.int64)


def node_ids(
    node_type: str, column: pa.ChunkedArray, *, id_type: str, from_csv: bool, what: str
) -> tuple[NodeIds, Array]:
    """The sorted ids of a node table, and the order that sorts its rows."""
    _no_missing(column, what)
    column = _from_float(column)
    if id_type == "auto":
        whole = not is_text(column) or (from_csv and _all_whole(column))
        id_type = "integer" if whole else "text"
    ids = _converted(column, id_type, what).combine_chunks()
    order = np.asarray(pc.sort_indices(ids)).astype(np.int64)
    ids = ids.take(pa.array(order))
    repeated = pc.equal(ids.slice(1), ids.slice(0, len(ids) - 1)) if len(ids) > 1 else pa.array([], pa.bool_())
    if pc.any(repeated).as_py():
        first = ids[int(np.flatnonzero(np.asarray(repeated))[0])].as_py()
        raise InputError(
            f"{what} has {pc.sum(repeated).as_py()} duplicate ids, such as {first!r}; keep one row per node "
            "(sql: SELECT DISTINCT …)."
        )
    return NodeIds(node_type, ids), order


def _no_missing(column: pa.ChunkedArray, what: str) -> None:
    if is_list(column):
        raise InputError(f"{what} holds lists; ids are numbers or text.")
    if column.null_count:
        raise InputError(f"{what} is empty in {column.null_count} of {len(column)} rows; every row needs an id.")


def _all_whole(column: pa.ChunkedArray) -> bool:
    return bool(pc.all(pc.match_substring_regex(column, WHOLE_NUMBER)).as_py())


def _from_float(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """2.0 is the id 2 (tables with gaps are often read as floats); 2.5 is a name."""
    if not pa.types.is_floating(column.type):
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column.cast(pa.large_string())


def _converted(column: pa.ChunkedArray, id_type: str, what: str, *, unknown_to: str = "") -> pa.ChunkedArray:
    if id_type == "text":
        return column.cast(pa.large_string())
    if is_text(column):
        whole = np.asarray(pc.match_substring_regex(column, WHOLE_NUMBER).combine_chunks())
        if not whole.all():
            row = int(np.flatnonzero(~whole)[0])
            reason = (
                f'which is not an id of "{unknown_to}"' if unknown_to else 'not a whole number: set id_type = "text"'
            )
            raise InputError(f"{what} has {column[row].as_py()!r} in row {row + 1}, {reason}.")
    return column.cast(pa.int64())
