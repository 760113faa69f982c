"""Are the meta-paths learned? Each seed beside its control with uniform filters, and the paths that contribute most.

python -m benchmarks.learned_paths [--datasets dblp,acm,imdb] [--models fast_gtn,gtn] [--runs 10] [--out FOLDER]

Every model is trained with its defaults, and so is its control, which has the same settings and filters that are frozen
at uniform. One seed may not show a small difference. What it does show is counted as wrong if the mean difference of
all seeds is not significant, or has the other sign. Runs and controls in FOLDER are used again.
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from fastgtn.bench.measure import markdown
from fastgtn.bench.nodes import paired
from fastgtn.config import Config
from fastgtn.explain.verdict import Control
from fastgtn.runs import Result, load_run
from fastgtn.runs.train import train

SURE = 0.05  # the p-value below which the mean difference of all seeds is taken for a fact


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default="dblp,acm,imdb")
    parser.add_argument("--models", default="fast_gtn,gtn")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("runs/learned-paths"))
    options = parser.parse_args()
    torch.set_num_threads(1)  # the digits do not depend on the machine's number of cores
    worth, listed = [], []
    for dataset in options.datasets.split(","):
        for model in options.models.split(","):
            folder = options.out / f"{dataset}-{model}"
            fit = {"runs": options.runs}
            train(Config.of({"dataset": dataset, "model": {"name": model}, "fit": fit}), out=folder, resume=True)
            results = [load_run(folder, seed=seed) for seed in range(options.runs)]
            controls = [result.control() for result in results]
            worth.append([dataset, model, *_worth(results, controls)])
            listed.append([dataset, model, *_paths(results)])
    columns = ["learned", "uniform", "difference", "p", "entropy", "shown by", "wrongly"]
    print(markdown(["dataset", "model", *columns], worth))
    print()
    print(markdown(["dataset", "model", "largest contributions: path, contribution (share %, lift)"], listed))


def _worth(results: Sequence[Result], controls: Sequence[Control]) -> list[str]:
    learned, uniform = (np.array([getattr(c, side) for c in controls]) for side in ("learned", "control"))
    found = paired(learned, uniform)
    p_value = found["p_t_test"]
    difference = found["difference"] or 0.0
    fact = np.sign(difference) if p_value is not None and p_value < SURE else 0.0
    said = [np.sign(control.difference) if control.matters else 0.0 for control in controls]
    return [
        *(f"{100 * side.mean():.2f} ± {100 * side.std(ddof=1):.2f}" for side in (learned, uniform)),
        f"{100 * difference:+.2f}",
        "–" if p_value is None else f"{p_value:.3f}",
        f"{100 * statistics.fmean(result.learned.entropy for result in results):.0f} %",
        f"{sum(one != 0 for one in said)} of {len(said)}",
        f"{sum(one not in (0, fact) for one in said)}",
    ]


def _paths(results: Sequence[Result], top: int = 4) -> list[str]:
    """The paths with the largest mean contribution over all seeds."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for result in results:
        for path in result.metapaths(top):
            facts = (path.contribution or 0.0, path.weight, path.lift or 0.0)
            found.setdefault(path.name, []).append(facts)
    total = {name: sum(facts[0] for facts in seen) / len(results) for name, seen in found.items()}
    words = []
    for name in sorted(total, key=lambda name: -total[name])[:top]:
        share, lift = (statistics.fmean(facts[n] for facts in found[name]) for n in (1, 2))
        words.append(f"{name} {total[name]:.2f} ({100 * share:.0f}, {lift:.1f})")
    return [" · ".join(words)]


if __name__ == "__main__":
    main()
