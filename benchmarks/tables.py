"""A million nodes and five million edges of CSV become an archive: time and peak memory.

python -m benchmarks.tables [--nodes 1000000] [--edges 5000000] [--json]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

GRAPH = """
[graph]
name = "large"
reverse = true
[nodes.user]
table = "users.csv"
id = "id"
features = ["age", "income", "town", "about"]
[nodes.item]
table = "items.csv"
id = "id"
[relations.buys]
table = "buys.csv"
source = { type = "user", column = "user" }
target = { type = "item", column = "item" }
weight = "times"
[relations.knows]
table = "knows.csv"
source = { type = "user", column = "user" }
target = { type = "user", column = "friend" }
[task]
target = "user"
label = "segment"
split = { train = 0.3, val = 0.2, test = 0.5, seed = 0 }
"""
BUILD = """
import json, resource, time
from pathlib import Path
start = time.perf_counter()
from fastgtn.data import archive, tables
graph, task = tables.build(Path("{folder}/graph.toml"))
read = time.perf_counter()
archive.write(Path("{folder}/{out}"), graph, task, meta=graph.meta)
print(json.dumps({{
    "nodes": sum(graph[t].num_nodes for t in graph.node_types),
    "edges": sum(graph[e].edge_index.size(1) for e in graph.edge_types if not e[1].startswith("rev_")),
    "read_seconds": round(read - start, 1),
    "write_seconds": round(time.perf_counter() - read, 1),
    "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
}}))
"""


def write_tables(folder: Path, num_nodes: int, num_edges: int) -> None:
    """Half users with text ids, half items with numbers; edges mostly to few of them."""
    half = num_nodes // 2
    user, item = f"'user-' || (random() * {half - 1})::BIGINT", f"(power(random(), 3) * {half - 1})::BIGINT"
    words = "['reads','runs','cooks','paints','sails','sings','plants','mends']"
    about = " || ' ' || ".join(f"{words}[1 + (random() * 7)::INT]" for _ in range(5))
    queries = {
        "users": f"SELECT 'user-' || i AS id, 18 + i % 70 AS age, round(random() * 9e4, 2) AS income, "
        f"'town' || i % 40 AS town, {about} AS about, 'segment' || i % 5 AS segment FROM range({half}) t(i)",
        "items": f"SELECT i AS id FROM range({num_nodes - half}) t(i)",
        "buys": f"SELECT {user} AS user, {item} AS item, 1 + (random() * 8)::INT AS times FROM range({num_edges // 2})",
        "knows": f"SELECT {user} AS user, {user} AS friend FROM range({num_edges - num_edges // 2})",
    }
    connection = duckdb.connect()
    connection.execute("SELECT setseed(0.5)")
    for name, query in queries.items():
        connection.execute(f"COPY ({query}) TO '{folder / name}.csv'")
    (folder / "graph.toml").write_text(GRAPH)


def main() -> None:
    """Build in a separate process, so that its peak memory is measured alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=5_000_000)
    parser.add_argument("--folder", action="store_true", help="write a folder of .npy files, not one .npz")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_tables(folder, options.nodes, options.edges)
        code = BUILD.format(folder=folder, out="large" if options.folder else "large.npz")
        start = time.perf_counter()
        run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        result = json.loads(run.stdout) | {"seconds": round(time.perf_counter() - start, 1)}
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"graph   {result['nodes']:,} nodes · {result['edges']:,} distinct edges, each with its reverse")
    print(f"time    {result['seconds']} s (tables {result['read_seconds']} s, archive {result['write_seconds']} s)")
    print(f"memory  {result['peak_megabytes']:,} MB at the peak")


if __name__ == "__main__":
    main()
