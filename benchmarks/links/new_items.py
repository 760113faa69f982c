"""Links to items that nobody has bought yet:  python -m benchmarks.links.new_items [--runs 3] [--models fast_gtn,gtn]

A generated shop (`make_new_items`) that is split by time. Joined meta-paths with and without the features of items,
popularity, and learned encoders: mean and deviation of the test NDCG@20, in points.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial

from fastgtn.data.synthetic.linked import make_new_items
from fastgtn.links import LinkTask, fit_encoders, fit_links
from fastgtn.links.rivals import RIVALS

METRIC = "ndcg@20"


def main() -> None:
    """Print one line per predictor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--models", default="fast_gtn,gtn")
    options = parser.parse_args()
    seeds = range(options.runs)
    shares = [_task(seed).cold_share for seed in seeds]
    print(f"new ends               {100 * statistics.fmean(shares):.0f} % of the validation links")
    _show("joined meta-paths", lambda seed: fit_links(_task(seed), seed=seed).test, seeds)
    _show("  without features", lambda seed: fit_links(_task(seed, features=False), seed=seed).test, seeds)
    _show("popularity", lambda seed: RIVALS["popularity"][1](_task(seed), seed).evaluate(_task(seed), "test"), seeds)
    for name in filter(None, options.models.split(",")):
        _show(f"{name} encoders", partial(_encoders, name), seeds)


def _task(seed: int, *, features: bool = True) -> LinkTask:
    graph = make_new_items(seed=seed)
    if not features:
        del graph["item"].x
    return LinkTask.from_graph(graph, "buys", by="time", seed=seed)


def _encoders(name: str, seed: int) -> dict[str, float]:
    return fit_encoders(_task(seed), name, seed=seed).test


def _show(title: str, scores: Callable[[int], dict[str, float]], seeds: range) -> None:
    found = [100 * scores(seed)[METRIC] for seed in seeds]
    deviation = statistics.stdev(found) if len(found) > 1 else 0.0
    print(f"{title:22} {statistics.fmean(found):.1f} ± {deviation:.1f}", flush=True)


if __name__ == "__main__":
    main()
