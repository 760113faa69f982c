"""The ten best of 100,000 targets for 10,000 sources:  python -m benchmarks.top_links [--sources 10000] [--width 64]

The time beside that of the bare matrix product over the same tiles, the peak memory, and the time for one source.
"""

import argparse
import time

import numpy as np
import scipy.sparse as sp
import torch

from fastgtn.links.learned.top import recommend_vectors
from fastgtn.system import peak_memory_mb


def main() -> None:
    """Print one line per quantity."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=int, default=10_000)
    parser.add_argument("--targets", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--known", type=int, default=50)
    options = parser.parse_args()
    torch.manual_seed(0)
    left, right = torch.randn(options.sources, options.width), torch.randn(options.targets, options.width)
    rng = np.random.default_rng(0)
    pairs = options.sources * options.known
    rows, cols = rng.integers(options.sources, size=pairs), rng.integers(options.targets, size=pairs)
    known = sp.csr_matrix((np.ones(pairs, bool), (rows, cols)), shape=(options.sources, options.targets))
    recommend_vectors(left[:8], right[:100], known[:8, :100], np.arange(8), top=10)  # compile
    before, started = peak_memory_mb(), time.perf_counter()
    recommend_vectors(left, right, known, np.arange(options.sources), top=10)
    seconds = time.perf_counter() - started
    print(f"top ten of all pairs   {seconds:.1f} s, {peak_memory_mb() - before:.0f} MB more than before")
    started, room = time.perf_counter(), torch.empty(1024, 1024)
    for high in left.split(1024):
        for wide in right.split(1024):
            torch.mm(high, wide.T, out=room[: len(high), : len(wide)])
    print(f"matrix product alone   {time.perf_counter() - started:.1f} s")
    started = time.perf_counter()
    for one in range(100):
        recommend_vectors(left[one : one + 1], right, known[[one]], np.array([one]), top=10)
    print(f"one source             {10 * (time.perf_counter() - started):.1f} ms")


if __name__ == "__main__":
    main()
