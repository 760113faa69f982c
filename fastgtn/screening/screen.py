"""Screening: every meta-path up to some length is tested alone, then a few are chosen together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator

from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.nn import Features
from fastgtn.relations import RelationStack
from fastgtn.relations.paths.metapath import MetaPath, PathNames
from fastgtn.screening.features import PathFeatures, PathSource, count_walks
from fastgtn.screening.labels import label_columns, permuted, sampled_rows
from fastgtn.screening.regression import TEST_RIDGE, LeaveOneOut
from fastgtn.screening.result import ITSELF, SIGNIFICANT, ScreenedPath, Screening
from fastgtn.screening.selection import Chosen, family_p_values, forward_selection

Array = np.ndarray
Progress = Callable[[int, int], None]  # paths that are done, of how many
FEWEST_NODES = 8
WIDTHS = (1024, 512, 256, 128)
WIDE_SECONDS, OPERATIONS_PER_SECOND = 5.0, 1e10


@dataclass(frozen=True)
class ScreenOptions:
    """Limits of a screening; all of them bound its time or its memory.

    Args:
        longest: Look at paths up to this many steps.
        most_nodes: Training nodes to use, each class in its share.
        most_paths: Lengths at which the number of paths would exceed this are not tested.
        most_chosen: Paths to choose.
        width: Number of columns to which wider features are reduced; None chooses 128 to 1,024 by the time they take.
        permutations: Permuted labels for the p-values.
        least_gain: Share of the R² so far that a further path must add.
        comparisons: How many screenings of the same labels the best is chosen from; p-values are multiplied by it.
        max_seconds: Begin no further path after this time.
        max_bytes: Memory for the decompositions of paths.
        seed: Of the sample, the mixing and the permutations.
    """

    longest: int = 4
    most_nodes: int = 2000
    most_paths: int = 20_000
    most_chosen: int = 4
    width: int | None = None
    permutations: int = 99
    least_gain: float = 0.02
    comparisons: int = 1
    max_seconds: float = 60.0
    max_bytes: float = 1e9
    seed: int = 0


def screen(
    stack: RelationStack,
    features: Features,
    task: NodeTask,
    *,
    means: bool = False,
    options: ScreenOptions | None = None,
    progress: Progress | None = None,
) -> Screening:
    r"""Test each meta-path by the leave-one-out :math:`R^2` of a ridge regression of the labels on :math:`A_p X`.

    Only training labels are read. p-values are family-wise: the share of permuted labels for which any path at all
    reaches that R².

    Args:
        stack: The prepared relations.
        means: Take the mean over path instances, as GTN does on raw matrices, not the product of the relations.
    """
    options = options or ScreenOptions()
    _check(options, task)
    started, rng = time.perf_counter(), np.random.default_rng(options.seed)
    places = sampled_rows(task, options.most_nodes, rng)
    labels = label_columns(task.train.labels[torch.from_numpy(places)], task.num_classes, rng)
    nodes = task.train.nodes[torch.from_numpy(places)]
    width = options.width or affordable_width(stack, task.target, options, len(nodes), labels.shape[1])
    source = PathSource.of(stack, features, task.target, nodes, means=means, width=width, seed=options.seed)
    tested = _Tested(labels, options, rng)
    unseen = _test_all(source, tested, started, progress)
    p_values = np.minimum(1.0, options.comparisons * family_p_values(np.array(tested.tested), tested.null))
    chosen = _choose(tested, p_values, labels, rng)
    names = PathNames(stack.node_types, stack.relations)
    places_of = {one.number: (rank, one.added) for rank, one in enumerate(chosen, 1)}
    found = [
        ScreenedPath(
            name=names.short(path) if len(path) else ITSELF,
            path=path,
            r_squared=tested.values[number],
            p_value=float(p_values[number]),
            added=places_of.get(number, (None, 0.0))[1],
            chosen=places_of.get(number, (None, 0.0))[0],
        )
        for number, path in enumerate(tested.paths)
    ]
    found.sort(key=lambda one: (-one.r_squared, len(one.path)))
    is_sketched = any(block.width > width for block in features.blocks)
    return Screening(
        target=task.target,
        paths=tuple(found),
        joint=sum(one.added for one in chosen),
        num_nodes=len(places),
        num_train=len(task.train),
        longest=options.longest,
        permutations=options.permutations,
        seconds=round(time.perf_counter() - started, 3),
        unseen=unseen,
        sketched=width if is_sketched else 0,
    )


class _Tested:
    """The paths so far: their R², the largest under each permutation, and decompositions while they fit."""

    def __init__(self, labels: Array, options: ScreenOptions, rng: Generator) -> None:
        self.options, self.columns = options, labels.shape[1]
        self.labels = labels
        orders = permuted(labels, options.permutations, rng)
        self.orders = np.concatenate([labels, orders], axis=1).astype(np.float32)  # the true order first
        self.paths: list[MetaPath] = []
        self.values: list[float] = []  # R² with the best ridge
        self.tested: list[float] = []  # with the one that permuted labels are fitted with
        self.fits: dict[int, LeaveOneOut] = {}
        self.null = np.full(options.permutations, -np.inf)
        self.held = 0

    def add(self, path: PathFeatures) -> None:
        fit = LeaveOneOut(path.values)
        number = len(self.paths)
        self.paths.append(path.path)
        self.values.append(float(fit.r_squared(self.labels, self.columns)[0]))
        tested = fit.r_squared(self.orders, self.columns, TEST_RIDGE)
        self.tested.append(float(tested[0]))
        self.null = np.maximum(self.null, tested[1:])
        self.fits[number] = fit
        self.held += fit.nbytes
        if self.held > self.options.max_bytes:
            worst = sorted(self.fits, key=lambda n: self.values[n])[: len(self.fits) // 2]
            for n in worst:
                self.held -= self.fits.pop(n).nbytes


def _test_all(source: PathSource, tested: _Tested, started: float, progress: Progress | None) -> tuple[str, ...]:
    """Test the paths by length; returns the paths that were not tested."""
    options, done, total = tested.options, 1, 1
    tested.add(source.own())
    for length in range(1, options.longest + 1):
        paths = source.of_length(length, most=options.most_paths)
        if paths is None:
            return (f"paths of {_steps(length)} or more: there are over {options.most_paths:,}",)
        total += len(paths)
        for path in _until(iter(paths), started + options.max_seconds):
            tested.add(path)
            done += 1
            if progress is not None:
                progress(done, total)
        if done < total:
            left = f"{total - done:,} of {len(paths):,} paths of {_steps(length)}"
            longer = f", and all longer ones up to {options.longest}" if length < options.longest else ""
            return (f"{left}{longer}: {options.max_seconds:g} s had passed",)
    return ()


def _until(paths: Iterator[PathFeatures], end: float) -> Iterator[PathFeatures]:
    while time.perf_counter() < end:
        path = next(paths, None)
        if path is None:
            return
        yield path


def _choose(tested: _Tested, p_values: Array, labels: Array, rng: Generator) -> tuple[Chosen, ...]:
    options, kept = tested.options, sorted(tested.fits)
    if not kept or min(p_values[kept]) > SIGNIFICANT:
        return ()
    found = forward_selection(
        [tested.fits[n] for n in kept],
        labels,
        [len(tested.paths[n]) for n in kept],
        most=options.most_chosen,
        least_gain=options.least_gain,
        explains_alone=[tested.values[n] > 0 for n in kept],
        rng=rng,
    )
    return tuple(Chosen(kept[one.number], one.added) for one in found)


def affordable_width(stack: RelationStack, target: str, options: ScreenOptions, rows: int, columns: int) -> int:
    """The widest features for which all paths take a few seconds and the tables of all nodes fit into memory."""
    paths = min(count_walks(stack, target, options.longest), options.most_paths)
    edges = stack.num_edges * max(1, paths // max(len(stack), 1))

    def fits(width: int) -> bool:
        square = min(width, rows)
        fit = rows * square * (2 * width + 4 * columns * options.permutations) + 10 * square**3
        held = 4 * stack.num_nodes * width * (options.longest + 1)
        return (paths * fit + edges * width) / OPERATIONS_PER_SECOND <= WIDE_SECONDS and held <= options.max_bytes

    return next((width for width in WIDTHS if fits(width)), WIDTHS[-1])


def _check(options: ScreenOptions, task: NodeTask) -> None:
    if options.longest < 1:
        raise InputError(f"longest is {options.longest}; look at paths of at least one step.")
    if options.permutations < 19:
        raise InputError(f"permutations is {options.permutations}; p-values of 5 % need at least 19.")
    if len(task.train) < FEWEST_NODES:
        raise InputError(
            f"there are {len(task.train)} training nodes; screening needs at least {FEWEST_NODES} to leave one out."
        )


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count > 1)}"
