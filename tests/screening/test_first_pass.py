"""A first pass over very many paths finds what an exhaustive computation finds, and gives no path an advantage."""

from typing import Any

import numpy as np
import pytest
import torch
from graphs import randn, random_stack
from numpy.random import default_rng

from fastgtn import screen_metapaths
from fastgtn.data import make_random_schema
from fastgtn.nn import Features
from fastgtn.relations import RelationStack
from fastgtn.screening import first_pass
from fastgtn.screening.features import PathSource
from fastgtn.screening.first_pass import FirstPass
from fastgtn.screening.labels import label_columns, permuted
from fastgtn.screening.options import ScreenOptions
from fastgtn.screening.tested import PathTests

Array = np.ndarray
MANY: dict[str, Any] = {"most_tested": 20, "longest": 3}  # fewer than there are, so that a first pass is made


def source_of(stack: RelationStack, *, means: bool = False, width: int = 3) -> PathSource:
    x = torch.cat([randn(len(stack.nodes_of(t)), width, seed=n) for n, t in enumerate(stack.node_types)])
    target = stack.relations[0].target
    nodes = torch.arange(len(stack.nodes_of(target)))
    return PathSource.of(stack, Features.of(x), target, nodes, means=means, width=128, seed=0)


def orders_of(rows: int, permutations: int = 5) -> tuple[Array, int]:
    """Labels of three classes in their order, and permuted."""
    rng = default_rng(0)
    labels = label_columns(torch.arange(rows) % 3, 3, rng)
    return np.concatenate([labels, permuted(labels, permutations, rng)], axis=1), labels.shape[1]


@pytest.mark.parametrize("length", [2, 3, 4])
@pytest.mark.parametrize("seed", [0, 1, 3, 4])
def test_every_path_has_the_covariance_of_its_features_with_the_labels(
    seed: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = random_stack(seed, num_types=3, num_relations=6, max_nodes=8, max_edges=20).row_normalized("zero")
    source = source_of(stack)
    orders, columns = orders_of(len(source.nodes))
    seen: dict[tuple[int, ...], Array] = {}
    add = first_pass._Best.add

    def remembered(best: first_pass._Best, paths: list[tuple[int, ...]], values: torch.Tensor) -> None:
        seen.update(zip(paths, values.numpy().T, strict=True))
        add(best, paths, values)

    monkeypatch.setattr(first_pass._Best, "add", remembered)
    parts = source.taken_apart(length)
    found = FirstPass(parts, source.kind, source.features, orders, columns, means=False, seed=0).promising()
    paths = source.of_length(parts, most=100_000)
    assert paths is not None
    for steps, path in zip(_in_order(paths), paths, strict=True):
        covariance = np.square(orders.T @ path.values).reshape(-1, columns, path.values.shape[1]).sum((1, 2))
        np.testing.assert_allclose(seen.get(steps, 0.0), covariance, rtol=1e-4, atol=1e-6)
    assert found.num_seen == sum(bool(values.any()) for values in seen.values())
    assert set(found.fair) | set(found.further) <= set(paths.paths)


def _in_order(paths: Any) -> list[tuple[int, ...]]:
    """The steps of the paths in the order in which their features come."""
    numbers = {paths.parts.path(paths.source.kind, steps): steps for steps in paths.paths}
    return [numbers[path.path] for path in paths]


@pytest.mark.parametrize("model", ["fast_gtn", "gtn"])
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_the_planted_path_is_named_and_comes_first(seed: int, model: str) -> None:
    graph, task = make_random_schema(seed, types=4, relations=12, steps=3)
    config = {"model": {"name": model}}
    found = screen_metapaths(graph, task, config, permutations=19, **MANY)
    assert found.first_pass > 0
    assert [list(relation) for relation in found.chosen[0].path.relations] == graph.planted["relations"]
    every = screen_metapaths(graph, task, config, permutations=19, longest=3)
    assert every.first_pass == 0
    assert found.chosen[0].r_squared == pytest.approx(every.chosen[0].r_squared)


def test_permuted_labels_give_no_path() -> None:
    graph, task = make_random_schema(1, types=3, relations=12, permuted=True)
    found = screen_metapaths(graph, task, **MANY)
    assert found.first_pass > 0
    assert found.num_significant == 0


def test_a_path_that_only_the_true_labels_named_shows_no_signal_by_itself() -> None:
    labels = label_columns(torch.arange(30) % 2, 2, default_rng(0))
    tested = PathTests(labels, ScreenOptions(permutations=19), default_rng(0))
    tested.tested, tested.null, tested.further = [0.1, 0.9], np.full(19, 0.5), [1]
    assert tested.p_values().tolist() == [1.0, 1.0]
    tested.further = []
    assert tested.p_values().tolist() == [1.0, pytest.approx(1 / 20)]


def test_too_many_paths_are_reported_and_not_looked_at() -> None:
    graph, task = make_random_schema(1, types=3, relations=12)
    found = screen_metapaths(graph, task, permutations=19, most_products=1.0, **MANY)
    assert found.unseen == ("paths of 2 steps or more: there are too many of them",)
    assert {len(path.path) for path in found} == {0, 1}
