"""Tune many models on many datasets and keep the winners as the configs of the package.

python -m benchmarks.tune_all --minutes 1 --trials 20 --models gcn gat --datasets dblp imdb --jobs 2

Every cell has the same budget, and its own process with one thread. A search starts from the config in
fastgtn/config/tuned, if there is one, and its winner replaces that file. An interrupted command resumes where it
stopped, and finished cells of the same folder are skipped. Each line names the trials and the processor time that a
search has used. Without --models all baselines are tuned.
"""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fastgtn.bench.paper import in_order
from fastgtn.config.tuned_configs import models
from fastgtn.runs.files import write_text

CONFIGS = Path(__file__).parents[1] / "fastgtn" / "config" / "tuned"
DATASETS = ("dblp", "acm", "imdb", "airport", "blogcatalog", "citeseer", "cora", "flickr")
OURS = ("gtn", "fast_gtn", "fast_gtn_non_local")
# decided beforehand, for every model alike: where labelled nodes were picked in equal numbers per class, the class
# frequencies of the rest are estimated; and training stops when validation has long been better before
PICKED_EQUALLY = ("dblp", "acm", "imdb")
PATIENCE = "fit.patience=40"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def tune_cell(dataset: str, model: str, options: argparse.Namespace) -> str:
    """Tune one cell and install its winner; one line about it."""
    folder, installed = options.out / f"{dataset}-{model}", CONFIGS / dataset / f"{model}.toml"
    best, done = folder / "best.toml", folder / "done.json"
    if done.exists() and installed.exists() and best.read_text() == installed.read_text():
        return _line(dataset, model, json.loads(done.read_text()))
    command = [
        sys.executable,
        "-m",
        "fastgtn",
        "tune",
        "--dataset",
        dataset,
        "--model",
        model,
        "--out",
        str(folder),
        "--trials",
        str(options.trials),
        "--minutes",
        str(options.minutes),
        "--seeds-per-trial",
        str(options.seeds_per_trial),
        "--set",
        PATIENCE,
        *(["--set", "fit.label_shift=em"] if dataset in PICKED_EQUALLY else []),
        "--json",
    ]
    run = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False)
    if run.returncode:
        return f"{dataset}-{model}: {run.stderr.strip().splitlines()[-1]}"
    write_text(installed, best.read_text())
    write_text(done, run.stdout)
    return _line(dataset, model, json.loads(run.stdout))


def _line(dataset: str, model: str, found: dict[str, Any]) -> str:
    """The budget that the search has used, and the score of its winner."""
    score = f"{100 * found['best']['score']:.2f} (trial {found['best']['trial']})"
    budget = f"{found['trials']} trials, {found['scored']} to the end, {found['seconds']:.0f} s of training"
    return f"{dataset} {model}: {budget}, validation {score}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    baselines = [model for model in in_order(models()) if model not in OURS]
    parser.add_argument("--models", nargs="+", default=baselines, choices=list(models()))
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seeds-per-trial", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/tune"))
    options = parser.parse_args()
    cells = [(dataset, model) for dataset in options.datasets for model in options.models]
    with ThreadPoolExecutor(options.jobs) as pool:
        for line in pool.map(lambda cell: tune_cell(cell[0], cell[1], options), cells):
            print(line, flush=True)


if __name__ == "__main__":
    main()
