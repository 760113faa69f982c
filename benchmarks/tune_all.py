"""Tune many models on many datasets and keep the winners as the configs of the package.

python -m benchmarks.tune_all --minutes 1 --trials 20 --models gcn gat --datasets dblp imdb --jobs 2

Every cell has the same budget and a process and a thread of its own. The same command continues where it was broken
off; a cell whose winner is in fastgtn/configs already is done. Without --models all baselines are tuned.
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fastgtn.training.files import write_text
from fastgtn.training.model_titles import TITLES
from fastgtn.training.recipes import MODELS

CONFIGS = Path(__file__).parents[1] / "fastgtn" / "configs"
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
    best = folder / "best.toml"
    if best.exists() and installed.exists() and best.read_text() == installed.read_text():
        return f"{dataset}-{model}: done before · {_chosen(best)}"
    command = [
        sys.executable, "-m", "fastgtn", "tune", "--dataset", dataset, "--model", model, "--out", str(folder),
        "--trials", str(options.trials), "--minutes", str(options.minutes),
        "--seeds-per-trial", str(options.seeds_per_trial), "--set", PATIENCE,
        *(["--set", "fit.label_shift=em"] if dataset in PICKED_EQUALLY else []),
    ]  # fmt: skip
    begun = time.perf_counter()
    run = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, text=True, check=False)
    if run.returncode:
        return f"{dataset}-{model}: {run.stderr.strip().splitlines()[-1]}"
    write_text(installed, best.read_text())
    return f"{dataset}-{model}: {time.perf_counter() - begun:.0f} s · {_chosen(best)}"


def _chosen(config: Path) -> str:
    return config.read_text().splitlines()[1].removeprefix("# ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    baselines = [model for model in TITLES if model in MODELS and model not in OURS]
    parser.add_argument("--models", nargs="+", default=baselines, choices=list(MODELS))
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
