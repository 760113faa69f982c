"""How often the planted meta-path is ranked first: over seeds, path lengths, noise and misleading relations.

python -m benchmarks.recovery [--seeds 20] [--first-seed 0] [--models fast_gtn,gtn] [--paths APV,APA,APVP,APVPA]
                              [--noise 0.5,1,2] [--misleading 0,1,3] [--json]

Every seed draws another graph and another model; the config is the one that comes with the package for this dataset,
with the path length of the planted path. Noise and misleading relations are varied one at a time around the default.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from fastgtn.config import Config
from fastgtn.config.tuned_configs import model_values, recipe
from fastgtn.data import make_planted
from fastgtn.explain import Ranking, rank_metapaths
from fastgtn.runs import fit

LABEL_NOISE, FEATURE_NOISE, EDGE_NOISE = 0.05, 0.2, 0.05  # the defaults of make_planted
DEFAULT_MISLEADING = 1


@dataclass
class Cell:
    """One row of the table: counts of seeds in which the planted path came first, or among the first three."""

    model: str
    path: str
    noise: float
    misleading: int
    seeds: int = 0
    first: int = 0
    top3: int = 0
    plain_first: int = 0
    plain_top3: int = 0
    test_micro_f1: float = 0.0
    share: float = 0.0
    seconds: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--models", default="fast_gtn,gtn")
    parser.add_argument("--paths", default="APV,APA,APVP,APVPA")
    parser.add_argument("--noise", default="0.5,1,2", help="multiples of the default noise")
    parser.add_argument("--misleading", default="0,1,3", help="numbers of relations without meaning")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    done = []
    for cell in cells(options):
        measure(cell, range(options.first_seed, options.first_seed + options.seeds))
        done.append(asdict(cell))
        if not options.json:
            print(line(cell), flush=True)
    if options.json:
        json.dump(done, sys.stdout, indent=2)


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    """The default of both, then each level of noise, then each number of misleading relations."""
    for model in options.models.split(","):
        for path in options.paths.split(","):
            levels = [(float(n), DEFAULT_MISLEADING) for n in options.noise.split(",")]
            levels += [(1.0, int(m)) for m in options.misleading.split(",") if int(m) != DEFAULT_MISLEADING]
            for noise, misleading in levels:
                yield Cell(model, path, noise, misleading)


def measure(cell: Cell, seeds: range) -> None:
    """Train once per seed and look for the planted path in the ranking."""
    config = Config.of(
        recipe(cell.model, "planted"), model_values(cell.model), {"model": {"path_length": len(cell.path) - 1}}
    )
    started = time.perf_counter()
    for seed in seeds:
        graph, task = make_planted(
            cell.path,
            misleading=cell.misleading,
            seed=seed,
            label_noise=cell.noise * LABEL_NOISE,
            feature_noise=cell.noise * FEATURE_NOISE,
            edge_noise=cell.noise * EDGE_NOISE,
        )
        result = fit(graph, task, config.for_seed(seed))
        planted = tuple(tuple(relation) for relation in graph.planted["relations"])
        by_share, by_product = (
            rank_metapaths(result.model, result.inputs.stack, task.target, nodes=task.train.nodes, top=3, rule=rule)
            for rule in ("effective", "plain")
        )
        cell.seeds += 1
        cell.first += _place(by_share, planted) == 1
        cell.top3 += _place(by_share, planted) is not None
        cell.plain_first += _place(by_product, planted) == 1
        cell.plain_top3 += _place(by_product, planted) is not None
        cell.test_micro_f1 += result.test["micro_f1"] / len(seeds)
        cell.share += next((r.weight for r in by_share if r.path.relations == planted), 0.0) / len(seeds)
    cell.seconds = (time.perf_counter() - started) / len(seeds)


def line(cell: Cell) -> str:
    """One printed row: shares of seeds in percent."""
    at = {name: 100 * getattr(cell, name) / cell.seeds for name in ("first", "top3", "plain_first", "plain_top3")}
    return (
        f"{cell.model:9} {cell.path:6} noise ×{cell.noise:<4} misleading {cell.misleading}   "
        f"@1 {at['first']:3.0f} %  @3 {at['top3']:3.0f} %   plain @1 {at['plain_first']:3.0f} %  "
        f"@3 {at['plain_top3']:3.0f} %   share {100 * cell.share:3.0f} %  test {100 * cell.test_micro_f1:.1f}  "
        f"{cell.seconds:.1f} s"
    )


def _place(ranking: Ranking, planted: tuple[tuple[str, ...], ...]) -> int | None:
    return next((ranked.rank for ranked in ranking if ranked.path.relations == planted), None)


if __name__ == "__main__":
    main()
