"""Planted meta-paths on graphs of random schemas, with defaults only: are they found, and how good is the model?

python -m benchmarks.random_schemas [--graphs 50] [--first-seed 1000] [--models fast_gtn,gtn] [--paths 1] [--permuted]
                                    [--no-trials] [--out FILE]

Every seed draws another graph. The oracle knows the planted paths: it is a logistic regression on the features at their
ends, whose strength of regularisation is chosen on the validation nodes. With --permuted the labels are shuffled, and
the question is how often a path is called significant. Screening decides that before any trial, so with --no-trials
many graphs take little time. Results are appended to --out, one line for each graph and
model, and those that it has already are not computed again.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn import fit
from fastgtn.config import Config
from fastgtn.data import NodeTask
from fastgtn.data.synthetic.random_schema.graph import make_random_schema
from fastgtn.relations import RelationStack

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)  # inverse regularisation of the oracle
CLOSE = 0.03  # the distance from the oracle that counts as reaching it

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--models", default="fast_gtn,gtn")
    parser.add_argument("--paths", type=int, default=1)
    parser.add_argument("--permuted", action="store_true")
    parser.add_argument("--no-trials", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    known = [json.loads(line) for line in options.out.read_text().splitlines()] if _exists(options.out) else []
    rows = []
    for seed in range(options.first_seed, options.first_seed + options.graphs):
        for model in options.models.split(","):
            key = {"seed": seed, "model": model, "paths": options.paths, "permuted": options.permuted}
            key["trials"] = not options.no_trials
            row = next((row for row in known if key.items() <= row.items()), None) or measure(**key)
            rows.append(row)
            print(line(row), flush=True)
            if options.out is not None and row not in known:
                with options.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    for model in options.models.split(","):
        print(summary(model, [row for row in rows if row["model"] == model]))


def measure(seed: int, model: str, paths: int, *, permuted: bool, trials: bool) -> Row:
    """Train on one graph with the defaults, and look for the planted paths."""
    graph, task = make_random_schema(seed, paths=paths, permuted=permuted)
    started = time.perf_counter()
    untried = {} if trials else {"fit": {"trial_seconds": 0}}
    result = fit(graph, task, Config.of({"model": {"name": model}}, untried))
    seconds = time.perf_counter() - started
    ranking = result.metapaths(3)
    planted = [tuple(tuple(relation) for relation in path) for path in graph.planted["paths"]]
    found = [tuple(tuple(relation) for relation in ranked.path.relations) for ranked in ranking]
    screening = result.screening
    return {
        "seed": seed,
        "model": model,
        "paths": paths,
        "permuted": permuted,
        "trials": trials,
        "seconds": round(seconds, 1),
        "test": result.test["micro_f1"],
        "oracle": None if permuted else oracle(graph, task),
        "steps": [len(path) for path in planted],
        "places": [found.index(path) + 1 if path in found else None for path in planted],
        "significant": 0 if screening is None else screening.num_significant,
        "verdict": ranking.learned.verdict if ranking.learned is not None else "",
    }


def oracle(graph: HeteroData, task: NodeTask) -> float:
    """The test accuracy of a logistic regression that knows the planted paths."""
    stack = RelationStack.from_hetero(graph).row_normalized(empty_rows="zero")
    x = np.concatenate([_at_the_end(graph, stack, path) for path in graph.planted["paths"]], axis=1)
    train, val = task.train, task.val
    x = (x - x[train.nodes].mean(0)) / np.maximum(x[train.nodes].std(0), 1e-9)
    fits = [LogisticRegression(C=c, max_iter=2000).fit(x[train.nodes], train.labels) for c in STRENGTHS]
    best = max(fits, key=lambda fit: float(fit.score(x[val.nodes], val.labels)))
    logits = Tensor(best.predict_proba(x[task.test_nodes]))
    return task.score_test([_all_classes(logits, best.classes_, task.num_classes)])["micro_f1"]


def _at_the_end(graph: HeteroData, stack: RelationStack, path: Sequence[Sequence[str]]) -> np.ndarray[Any, Any]:
    """The means of the features at the end of a path; a node type without features has a column for each node."""
    end = graph[path[-1][0]]
    values = end.x.double().numpy() if "x" in end else np.eye(end.num_nodes)
    h = torch.zeros(stack.num_nodes, values.shape[1], dtype=torch.float64)
    nodes = stack.nodes_of(path[-1][0])
    h[nodes.start : nodes.stop] = torch.from_numpy(values)
    by_name = {tuple(relation): number for number, relation in enumerate(stack.relations)}
    for relation in reversed(path):
        h = stack[by_name[tuple(relation)]] @ h
    target = stack.nodes_of(path[0][2])
    return h[target.start : target.stop].numpy()


def _all_classes(scores: Tensor, classes: Sequence[int], count: int) -> Tensor:
    wide = scores.new_zeros(len(scores), count)
    wide[:, list(classes)] = scores
    return wide


def _exists(path: Path | None) -> bool:
    return path is not None and path.exists()


def line(row: Row) -> str:
    """One printed row."""
    places = ", ".join("not among the first three" if place is None else str(place) for place in row["places"])
    gap = "" if row["oracle"] is None else f"  oracle {100 * row['oracle']:.1f}"
    return (
        f"{row['model']:9} graph {row['seed']}  steps {row['steps']}  place {places}  test {100 * row['test']:.1f}{gap}"
        f"  significant {row['significant']}  {row['seconds']:.0f} s"
    )


def summary(model: str, rows: Sequence[Row]) -> str:
    """How often the planted paths were found, and how often the model is close to the oracle."""
    count = len(rows)
    if rows[0]["permuted"]:
        called = sum(row["significant"] > 0 for row in rows)
        said = sum(row["verdict"].startswith("Nothing was found") for row in rows)
        return f"{model}: {count} graphs with permuted labels, a significant path in {called}, nothing found in {said}"
    first = sum(row["places"][0] == 1 for row in rows)
    all_found = sum(None not in row["places"] for row in rows)
    gaps = [row["test"] - row["oracle"] for row in rows]
    close = sum(gap >= -CLOSE for gap in gaps)
    return (
        f"{model}: {count} graphs, first {first}, all planted paths among the first three {all_found}, within "
        f"{100 * CLOSE:.0f} points of the oracle {close}, mean difference {100 * statistics.fmean(gaps):+.1f} points"
    )


if __name__ == "__main__":
    main()
