"""Write the example's CSV tables as Parquet files and as an SQLite database, for the other two graph files."""

import sqlite3
import sys
from pathlib import Path

import duckdb

TABLES = ("users", "shops", "visits", "friends")


def convert(source: Path, target: Path) -> None:
    """Make target/*.parquet and target/shop.sqlite from source/*.csv."""
    (target / "shop.sqlite").unlink(missing_ok=True)
    database = sqlite3.connect(target / "shop.sqlite")
    for name in TABLES:
        rows = duckdb.read_csv(str(source / f"{name}.csv"), header=True)
        rows.write_parquet(str(target / f"{name}.parquet"))
        marks = ", ".join("?" for _ in rows.columns)
        database.execute(f"CREATE TABLE {name} ({', '.join(rows.columns)})")
        database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows.fetchall())
    # A shop's own database would hold one row per visit: the query of graph-sqlite.toml counts them
    database.execute("CREATE TABLE single_visits (user, shop)")
    visits = database.execute("SELECT user, shop, times FROM visits").fetchall()
    singles = [(user, shop) for user, shop, times in visits for _ in range(times)]
    database.executemany("INSERT INTO single_visits VALUES (?, ?)", singles)
    database.commit()
    database.close()


if __name__ == "__main__":
    here = Path(__file__).parent
    convert(here, Path(sys.argv[1]) if len(sys.argv) > 1 else here)
