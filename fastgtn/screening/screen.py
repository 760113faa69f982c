"""Screening: every meta-path up to some length is tested alone, then a few are chosen together."""

from __future__ import annotations

import time

import numpy as np
import torch
from numpy.random import Generator

from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.nn import Features
from fastgtn.relations import RelationStack
from fastgtn.relations.paths.metapath import PathNames
from fastgtn.screening.features import PathSource, count_walks
from fastgtn.screening.labels import label_columns, sampled_rows
from fastgtn.screening.options import ScreenOptions
from fastgtn.screening.result import ITSELF, SIGNIFICANT, ScreenedPath, Screening
from fastgtn.screening.selection import Chosen, forward_selection
from fastgtn.screening.tested import PathTests, Progress, run_tests

Array = np.ndarray
FEWEST_NODES = 8
WIDTHS = (1024, 512, 256, 128)
WIDE_SECONDS, OPERATIONS_PER_SECOND = 5.0, 1e10


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
    tested = PathTests(labels, options, rng)
    unseen = run_tests(source, tested, progress)
    p_values = tested.p_values()
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
        first_pass=tested.first_pass,
    )


def _choose(tested: PathTests, p_values: Array, labels: Array, rng: Generator) -> tuple[Chosen, ...]:
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
    paths = min(count_walks(stack, target, options.longest), options.most_tested)
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
