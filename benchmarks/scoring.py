"""Milliseconds to score single nodes: the first call, later calls, and a prediction of all nodes beside them; and of
requests of eight clients to `fastgtn serve`.

python -m benchmarks.scoring [--customers 20000,200000] [--calls 200] [--requests 1000] [--json]

The graphs have customers, devices and merchants with three random edges of each kind per customer.
"""

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.data import NodeTask
from fastgtn.runs import Result

EDGES = 3
CLIENTS = 8
CONFIG = {
    "model": {"path_length": 2, "num_channels": 2, "start": "uniform", "hidden": 64},
    "fit": {"epochs": 2},
}


def customers_graph(count: int) -> tuple[HeteroData, NodeTask]:
    """Customers with random devices and merchants, and random labels: only the time matters here."""
    g = torch.Generator().manual_seed(0)
    graph = HeteroData()
    graph["customer"].x = torch.randn(count, 32, generator=g)
    graph["customer"].node_id = np.array([f"c{n}" for n in range(count)])
    graph["device"].x = torch.randn(count // 2, 16, generator=g)
    graph["merchant"].num_nodes = max(10, count // 100)
    for other in ("device", "merchant"):
        sources = torch.randint(count, (EDGES * count,), generator=g)
        targets = torch.randint(int(graph[other].num_nodes or 0), (EDGES * count,), generator=g)
        graph["customer", f"has_{other}", other].edge_index = torch.stack([sources, targets])
        graph[other, f"rev_has_{other}", "customer"].edge_index = torch.stack([targets, sources])
    labels, nodes = torch.randint(2, (count,), generator=g), torch.randperm(count, generator=g)
    task = NodeTask.from_labels(
        "customer", "single", labels, train=nodes[:500], val=nodes[500:700], test=nodes[700:900]
    )
    return graph, task


def measured(folder: Path, *, calls: int) -> dict[str, Any]:
    """Calls of a run that was just opened."""
    start = time.perf_counter()
    run = fastgtn.load_run(folder)
    run.predict(nodes=["c0"])
    first = 1000 * (time.perf_counter() - start)
    count = int(run.graph[run.schema.target].num_nodes or 0)
    g = np.random.default_rng(0)
    rows: dict[str, Any] = {"nodes": run.inputs.raw.num_nodes, "edges": run.inputs.raw.num_edges, "first_ms": first}
    for size in (1, 100):
        ids = [[f"c{n}" for n in g.integers(count, size=size)] for _ in range(calls)]
        times = [_planned(run, some) for some in ids]
        rows[f"{size}_p50_ms"] = statistics.median(times)
        rows[f"{size}_p99_ms"] = float(np.quantile(times, 0.99))
    rows["all_ms"] = _milliseconds(run.predict)
    return rows


def served(folder: Path, *, requests: int) -> dict[str, Any]:
    """Requests of one to five stored nodes, and of one new node with six edges, from eight connections at a time."""
    command = [sys.executable, "-m", "fastgtn", "serve", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    line = server.stdout.readline()
    port = int(line.split("127.0.0.1:")[1].split()[0])
    try:
        rows: dict[str, Any] = {}
        for kind, count in (("stored", requests), ("new", requests // 5)):
            start = time.perf_counter()
            with ThreadPoolExecutor(CLIENTS) as pool:
                jobs = [(port, kind, count // CLIENTS, number) for number in range(CLIENTS)]
                times = [each for found in pool.map(lambda job: _ask(*job), jobs) for each in found]
            seconds = time.perf_counter() - start
            rows |= {f"{kind}_p50_ms": statistics.median(times), f"{kind}_p99_ms": float(np.quantile(times, 0.99))}
            rows[f"{kind}_per_second"] = len(times) / seconds
        return rows
    finally:
        server.terminate()
        server.wait()


def _ask(port: int, kind: str, count: int, seed: int) -> list[float]:
    """The milliseconds of each request of one client."""
    draw, times = np.random.default_rng(seed), []
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for number in range(count):
        body: dict[str, Any] = {"nodes": [f"c{n}" for n in draw.integers(10_000, size=draw.integers(1, 6))]}
        if kind == "new":
            edges = {f"has_{other}": draw.integers(100, size=3).tolist() for other in ("device", "merchant")}
            body = {"new": [{"id": f"new-{seed}-{number}", "features": draw.normal(size=32).tolist(), "edges": edges}]}
        content = json.dumps(body)
        start = time.perf_counter()
        connection.request("POST", "/predict", content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        times.append(1000 * (time.perf_counter() - start))
        if answer.status != 200:
            raise RuntimeError(text.decode())
    return times


def _planned(run: Result, ids: list[str]) -> float:
    """One call, while the representations of all nodes are not kept."""
    run.own.on_demand.read = 0
    return _milliseconds(lambda: run.predict(nodes=ids))


def _milliseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--customers", default="20000,200000")
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for count in map(int, options.customers.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            graph, task = customers_graph(count)
            saved = fastgtn.fit(graph, task, CONFIG).save(Path(folder) / "run")
            rows.append(measured(saved, calls=options.calls) | served(saved, requests=options.requests))
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    calls = {
        "first call": "first_ms",
        "one node, p50": "1_p50_ms",
        "p99": "1_p99_ms",
        "100 nodes, p50": "100_p50_ms",
        " p99": "100_p99_ms",
        "all customers": "all_ms",
    }
    _print(rows, calls)
    requests = {
        "stored nodes, p50": "stored_p50_ms",
        "p99": "stored_p99_ms",
        "per second": "stored_per_second",
        "new node, p50": "new_p50_ms",
        " p99": "new_p99_ms",
        " per second": "new_per_second",
    }
    _print(rows, requests)


def _print(rows: list[dict[str, Any]], columns: dict[str, str]) -> None:
    titles = ["nodes", "edges", *(title.strip() for title in columns)]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for row in rows:
        cells = [f"{row[name]:,.1f} ms" if name.endswith("ms") else f"{row[name]:,.0f}" for name in columns.values()]
        print(f"| {row['nodes']:,} | {row['edges']:,} | {' | '.join(cells)} |")
    print()


if __name__ == "__main__":
    main()
