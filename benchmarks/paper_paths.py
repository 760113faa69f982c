"""The paper's table 5 beside ours:  python -m benchmarks.paper_paths [--runs 10]

after  fastgtn bench nodes --runs 10 --models gtn,fast_gtn --datasets dblp,acm,imdb

Ranks the meta-paths of all seeds of these cells, from the target type back to it, and from the target to anywhere, by
their exact effective share and by the paper's product of filter weights.
"""

import argparse
import statistics
from pathlib import Path

from fastgtn.bench.cells import plan
from fastgtn.bench.measure import markdown
from fastgtn.explain import rank_metapaths
from fastgtn.explain.ranking import Rule
from fastgtn.runs import load_run

PAPER = {
    "dblp": ("APCPA, APA", "APCPA, APAPA, APA", "CPCPA, APCPA, CP"),
    "acm": ("PAP, PSP", "PAP, PSP", "APAP, APA, SPAP"),
    "imdb": ("MAM, MDM", "MDM, MAM, MDMDM", "DM, AM, MDM"),
}


def top_paths(folder: Path, seeds: range, *, between_targets: bool, rule: Rule, top: int = 3) -> tuple[str, float]:
    """The paths with the largest mean share over all seeds, and the mean share of staying at the node."""
    shares: dict[str, list[float]] = {}
    empty = []
    first = load_run(folder, seed=seeds[0])
    graph, task = first.graph, first.task
    for seed in seeds:
        there = load_run(folder, seed=seed).on(graph)
        ranking = rank_metapaths(
            there.model,
            there.inputs.stack,
            task.target,
            top=60,
            between_targets=between_targets,
            rule=rule,
            features=there.inputs.features,
        )
        empty.append(ranking.empty_weight)
        for path in ranking:
            weight = path.weight if rule == "effective" else path.plain_weight
            shares.setdefault(path.name, []).append(weight)
    means = {name: sum(values) / len(seeds) for name, values in shares.items()}
    best = sorted(means, key=lambda name: -means[name])[:top]
    return ", ".join(f"{name} {100 * means[name]:.1f}" for name in best), statistics.fmean(empty)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/bench-nodes"))
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    seeds = range(options.runs)
    rows = []
    for dataset, (defined, between, everywhere) in PAPER.items():
        rows.append([dataset, "the paper's GTN", "–", between, everywhere, f"predefined: {defined}"])
        for model in ("gtn", "fast_gtn"):
            folder = options.out / plan(dataset, model, runs=options.runs, seed=0).folder_name
            for rule in ("effective", "plain"):
                back, empty = top_paths(folder, seeds, between_targets=True, rule=rule)
                out, _ = top_paths(folder, seeds, between_targets=False, rule=rule)
                stays = f"stays {100 * empty:.0f} %" if rule == "effective" else ""
                rows.append([dataset, model, rule, back, out, stays])
    print(markdown(["dataset", "model", "rule", "between target nodes", "from the target to anywhere", ""], rows))


if __name__ == "__main__":
    main()
