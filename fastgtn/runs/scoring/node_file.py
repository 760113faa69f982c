"""Ids of nodes from a file: the rows that a user wants to have scored."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fastgtn.errors import InputError
from fastgtn.runs.scoring.node_names import NodeNames

COLUMN = "node"  # as in tables of predictions


def read_node_file(path: Path, names: NodeNames) -> list[str]:
    """The ids of a table's column `node`, or of its only column; of a .txt file, one id per line."""
    if path.suffix == ".txt":
        ids = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    else:
        ids = _column(path, names)
    if not ids:
        raise InputError(f"{path} contains no ids of nodes.")
    return ids


def _column(path: Path, names: NodeNames) -> list[str]:
    table = _table(path)
    if COLUMN not in table.column_names and table.num_columns != 1:
        raise InputError(
            f'{path} has the columns {", ".join(table.column_names)}: name the column of ids "{COLUMN}", or give a '
            "file with one column."
        )
    column = table[COLUMN if COLUMN in table.column_names else 0]
    if column.null_count:
        raise InputError(f"{path}: {column.null_count:,} of {len(column):,} ids are missing.")
    header = table.column_names[0]
    if path.suffix == ".csv" and COLUMN not in table.column_names and names.has(header):
        raise InputError(f'{path}: the first line, "{header}", is an id: write the line "{COLUMN}" above it.')
    return [str(value) for value in column.to_pylist()]


def _table(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path)
        with pyarrow.csv.open_csv(path) as reader:  # for the names: ids must stay as they are written, 007 is not 7
            columns = reader.schema.names
        options = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=True)
        return pyarrow.csv.read_csv(path, convert_options=options)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a table: {' '.join(str(error).split())}.") from None
