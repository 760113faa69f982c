"""How often the planted joined path comes first:  python -m benchmarks.links.recovery [--seeds 20] [--paths USI,UTI]

Every seed draws another graph (`make_planted_links`), in which links follow one joined path and the other relations are
drawn by chance. All settings are the defaults.
"""

import argparse

from fastgtn.data.synthetic.linked import PATHS, make_planted_links
from fastgtn.links import LinkTask, fit_links


def main() -> None:
    """Print one line per path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--paths", default=",".join(PATHS))
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for path in options.paths.split(","):
        first = [_first(path, seed) for seed in seeds]
        others = sorted(set(first) - {path})
        print(f"{path:5} first in {first.count(path)} of {len(first)}", *others, flush=True)


def _first(path: str, seed: int) -> str:
    """The initials of the node types along the joined path that is ranked first."""
    task = LinkTask.from_graph(make_planted_links(path, seed=seed), "buys", seed=seed)
    ranked = fit_links(task, seed=seed).metapaths(1)
    return "".join(kind[0].upper() for kind in ranked[0].types) if ranked else "none"


if __name__ == "__main__":
    main()
