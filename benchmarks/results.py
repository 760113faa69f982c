"""Ten seeds of each model on the paper's datasets:  python -m benchmarks.results [--runs 10] [--datasets dblp …].

Trains with the tuned configs of the package into runs/results/, goes on where it was broken off, and prints the
paper's numbers beside ours. Epochs and configs were chosen on validation; the test split is scored once per run.
"""

import argparse
from pathlib import Path
from typing import Any

from fastgtn.bench.measure import markdown
from fastgtn.errors import InputError
from fastgtn.training.config import Config
from fastgtn.training.recipes import model_values, recipe, recipes
from fastgtn.training.runs import Listener, train

# micro-F1 in %: GTN, FastGTN without and with non-local operations, the best baseline (tables 3, 4 and 6)
PAPER: dict[str, dict[str, float]] = {
    "dblp": {"gtn": 94.47, "fast_gtn": 94.46, "fast_gtn_non_local": 94.85},
    "acm": {"gtn": 91.96, "fast_gtn": 91.79, "fast_gtn_non_local": 92.51},
    "imdb": {"gtn": 61.02, "fast_gtn": 60.23, "fast_gtn_non_local": 64.63},
    "airport": {"gtn": 61.80, "fast_gtn": 57.73},
    "blogcatalog": {"gtn": 90.30, "fast_gtn": 87.97},
    "citeseer": {"gtn": 68.68, "fast_gtn": 69.14},
    "cora": {"gtn": 79.99, "fast_gtn": 80.29},
    "flickr": {"gtn": 76.77, "fast_gtn": 73.64},
}


class OneLine(Listener):
    """Says when a seed is done."""

    def __init__(self, cell: str) -> None:
        self.cell = cell

    def seed_done(self, run: dict[str, Any]) -> None:
        print(f"{self.cell} seed {run['seed']}: test micro-F1 {100 * run['test']['micro_f1']:.2f}", flush=True)


def measure(dataset: str, model: str, runs: int, out: Path) -> dict[str, Any]:
    """One cell of the table; finished seeds are not repeated."""
    config = Config.of(recipe(model, dataset), {"dataset": dataset}, model_values(model), {"fit": {"runs": runs}})
    folder = out / f"{dataset}-{model}"
    return train(config, out=folder, resume=folder.exists(), listener=OneLine(folder.name))


def row(dataset: str, model: str, result: dict[str, Any]) -> list[str]:
    test, val = result["test"], result["val"]
    spread = [f"{100 * test[m]['mean']:.2f} ± {100 * test[m]['std']:.2f}" for m in ("micro_f1", "macro_f1")]
    paper = PAPER[dataset].get(model)
    seconds = sorted(run["seconds"] for run in result["runs"])[len(result["runs"]) // 2]
    return [
        dataset, model, "–" if paper is None else f"{paper:.2f}", *spread, f"{100 * val['micro_f1']['mean']:.2f}",
        str(len(result["runs"])), f"{seconds:.1f} s",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--datasets", nargs="+", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--models", nargs="+", default=["gtn", "fast_gtn"], choices=list(PAPER["dblp"]))
    parser.add_argument("--out", type=Path, default=Path("runs/results"))
    arguments = parser.parse_args()
    rows = []
    for dataset in arguments.datasets:
        for model in arguments.models:
            if (dataset, model) not in recipes():
                print(f"{dataset}-{model}: no tuned config")
                continue
            try:
                rows.append(row(dataset, model, measure(dataset, model, arguments.runs, arguments.out)))
            except InputError as error:
                print(f"{dataset}-{model}: {error}")
    header = ["dataset", "model", "paper micro-F1", "micro-F1", "macro-F1", "val micro-F1", "runs", "per run"]
    print(markdown(header, rows))


if __name__ == "__main__":
    main()
