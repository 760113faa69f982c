"""Test paths by length, all of them or those that a first pass names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.random import Generator

from fastgtn.relations.paths.decomposition import Decomposition
from fastgtn.relations.paths.metapath import MetaPath
from fastgtn.screening.features import PathFeatures, PathsOfLength, PathSource
from fastgtn.screening.first_pass import FirstPass
from fastgtn.screening.labels import permuted
from fastgtn.screening.options import ScreenOptions
from fastgtn.screening.regression import LeaveOneOut
from fastgtn.screening.selection import family_p_values

Array = np.ndarray
Progress = Callable[[int, int], None]  # paths that are done, of how many


class PathTests:
    """The paths so far: their R², the largest under each permutation, and decompositions while they fit."""

    def __init__(self, labels: Array, options: ScreenOptions, rng: Generator) -> None:
        self.options, self.columns = options, labels.shape[1]
        self.labels = labels
        orders = permuted(labels, options.permutations, rng)
        self.orders = np.concatenate([labels, orders], axis=1).astype(np.float32)  # the true order first
        self.paths: list[MetaPath] = []
        self.values: list[float] = []  # R² of leaving one out
        self.tested: list[float] = []  # as permuted labels are fitted
        self.fits: dict[int, LeaveOneOut] = {}
        self.null = np.full(options.permutations, -np.inf)
        self.held = 0
        self.first_pass = 0  # paths that were only looked at
        self.further: list[int] = []  # paths that only the true labels named

    def add(self, path: PathFeatures) -> None:
        fit = LeaveOneOut(path.values)
        number = len(self.paths)
        self.paths.append(path.path)
        self.further += [number] * path.is_further
        self.values.append(float(fit.r_squared(self.labels, self.columns)[0]))
        tested = fit.r_squared_of_orders(self.orders, self.columns)
        self.tested.append(float(tested[0]))
        self.null = np.maximum(self.null, tested[1:])
        self.fits[number] = fit
        self.held += fit.nbytes
        if self.held > self.options.max_bytes:
            worst = sorted(self.fits, key=lambda n: self.values[n])[: len(self.fits) // 2]
            for n in worst:
                self.held -= self.fits.pop(n).nbytes

    def p_values(self) -> Array:
        """The family-wise p-value of each path.

        A path that only the true labels named is never better than the best of those that permuted labels could name
        as well.
        """
        values = self.options.comparisons * family_p_values(np.array(self.tested), self.null)
        values[self.further] = np.maximum(values[self.further], np.delete(values, self.further).min())
        limited: Array = np.minimum(1.0, values)
        return limited


def run_tests(source: PathSource, tested: PathTests, progress: Progress | None) -> tuple[str, ...]:
    """Test the paths by length; returns the paths that were not tested, in sentences.

    The limit is the processor time of this thread, so that a busy machine tests the same paths.
    """
    end = time.thread_time() + tested.options.max_seconds
    options, done, total = tested.options, 1, 1
    tested.add(source.own())
    for length in range(1, options.longest + 1):
        parts = source.taken_apart(length)
        paths = source.of_length(parts, most=options.most_tested)
        if paths is None:
            paths = _promising(source, parts, tested)
        if paths is None:
            return (f"paths of {_steps(length)} or more: there are too many of them",)
        total += len(paths)
        for path in _until(iter(paths), end):
            tested.add(path)
            done += 1
            if progress is not None:
                progress(done, total)
        num_paths = len(paths)
        del parts, paths  # on a large graph the next length needs the memory
        if done < total:
            left = f"{total - done:,} of {num_paths:,} paths of {_steps(length)}"
            longer = f", and all longer ones up to {options.longest}" if length < options.longest else ""
            return (f"{left}{longer}: {options.max_seconds:g} s of processor time were used",)
    return ()


def _promising(source: PathSource, parts: Decomposition, tested: PathTests) -> PathsOfLength | None:
    """The paths that a first pass names; None where they are too many even for that."""
    options = tested.options
    look = FirstPass(
        parts, source.kind, source.features, tested.orders, tested.columns, means=source.means, seed=options.seed
    )
    products, held = look.cost()
    if products > options.most_products or held > options.max_bytes:
        return None
    found = look.promising()
    tested.first_pass += found.num_seen
    return PathsOfLength(source, parts, found.fair + found.further, further=frozenset(found.further))


def _until(paths: Iterator[PathFeatures], end: float) -> Iterator[PathFeatures]:
    while time.thread_time() < end:
        path = next(paths, None)
        if path is None:
            return
        yield path


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count > 1)}"
