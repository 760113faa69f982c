"""Screening finds planted paths, finds nothing in permuted labels, and reads training labels only."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from graphs import randn, random_stack
from torch_geometric.data import HeteroData

from fastgtn import screen_metapaths
from fastgtn.data import NodeTask, make_planted, make_random_schema
from fastgtn.errors import InputError
from fastgtn.nn import Features
from fastgtn.relations import RelationStack
from fastgtn.screening import Screening, ScreenOptions, screen
from fastgtn.screening.features import PathSource

FEW: dict[str, Any] = {"permutations": 19}


def small(seed: int = 0, **options: Any) -> tuple[HeteroData, NodeTask]:
    return make_random_schema(seed, types=3, relations=6, targets=60, **options)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("means", [True, False])
@pytest.mark.parametrize("seed", [0, 1, 3, 4, 5])
def test_features_of_paths_equal_dense_products(normalized: bool, means: bool, seed: int) -> None:
    raw = random_stack(seed, num_types=3, num_relations=6, max_nodes=8, max_edges=20)
    target = raw.relations[0].target
    x = {t: randn(len(raw.nodes_of(t)), 3, seed=n) for n, t in enumerate(raw.node_types)}
    features = Features.of(torch.cat(list(x.values())))
    stack, zero = (raw.row_normalized(), raw.row_normalized("zero")) if normalized else (raw, raw)
    nodes = torch.arange(len(raw.nodes_of(target)))
    source = PathSource.of(stack, features, target, nodes, means=means, width=128, seed=0)
    dense = {r: zero[str(r)].to_dense().numpy() for r in raw.relations}
    compared = 0
    for length in (1, 2, 3):
        for found in source.of_length(source.taken_apart(length), most=1000) or ():
            product = np.eye(stack.num_nodes)
            for relation in found.path.relations:
                product = product @ dense[relation]
            here, end = (slice(raw.nodes_of(t).start, raw.nodes_of(t).stop) for t in (target, found.path.types[-1]))
            weight = product[here].sum(1, keepdims=True)
            expected = product[here, end] @ x[found.path.types[-1]].numpy()
            expected = expected / np.where(weight > 0, weight, 1.0) if means else expected
            np.testing.assert_allclose(found.values, expected, atol=1e-12)
            compared += 1
    assert compared > 0


@pytest.mark.parametrize("model", ["fast_gtn", "gtn"])
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_the_planted_path_comes_first(seed: int, model: str) -> None:
    graph, task = make_random_schema(seed, types=4, relations=8, steps=2)
    found = screen_metapaths(graph, task, {"model": {"name": model}}, longest=3, **FEW)
    assert [list(relation) for relation in found.chosen[0].path.relations] == graph.planted["relations"]
    assert found.chosen[0].p_value == pytest.approx(1 / 20)
    assert found.joint == pytest.approx(sum(path.added for path in found.chosen))


def test_both_of_two_planted_paths_are_chosen() -> None:
    graph, task = make_random_schema(7, types=4, relations=8, steps=2, paths=2)
    chosen = [[list(r) for r in path.path.relations] for path in screen_metapaths(graph, task, longest=2, **FEW).chosen]
    assert all(path in chosen for path in graph.planted["paths"])


def test_p_values_count_every_screening_of_the_same_labels() -> None:
    once, thrice = (screen_metapaths(*small(), longest=2, comparisons=n, **FEW) for n in (1, 3))
    assert [path.p_value for path in thrice] == pytest.approx([min(1.0, 3 * path.p_value) for path in once])
    assert thrice.num_significant == 0  # 19 permutations cannot show 5 % of three


def test_permuted_labels_give_no_path() -> None:
    found = [
        screen_metapaths(*make_random_schema(seed, types=3, relations=6, permuted=True), longest=2) for seed in (1, 2)
    ]
    assert all(one.num_significant == 0 and one.chosen == () for one in found)
    assert found[0].verdict.startswith("None of")


def test_validation_and_test_labels_are_not_read() -> None:
    graph, task = small()
    labels, other = task._labels.clone(), torch.cat([task.val.nodes, task.test_nodes])
    labels[other] = labels[other][torch.randperm(len(other), generator=torch.Generator().manual_seed(0))]
    shuffled = NodeTask.from_labels(
        task.target,
        "single",
        labels,
        train=task.train.nodes,
        val=task.val.nodes,
        test=task.test_nodes,
        num_classes=task.num_classes,
    )
    first, second = (screen_metapaths(graph, t, longest=2, **FEW).to_dict() for t in (task, shuffled))
    assert first | {"seconds": 0} == second | {"seconds": 0}


def test_a_sample_of_nodes_keeps_the_classes() -> None:
    graph, task = make_planted("AP")
    found = screen_metapaths(graph, task, longest=2, most_nodes=60, **FEW)
    assert (found.num_nodes, found.num_train) == (60, len(task.train))
    assert found.chosen[0].name == "AP"


def test_several_labels_and_very_many_classes() -> None:
    graph, task = make_random_schema(0, types=4, relations=8, steps=2)
    one_hot = torch.nn.functional.one_hot(task._labels, task.num_classes).float()
    splits = {"train": task.train.nodes, "val": task.val.nodes, "test": task.test_nodes}
    several = NodeTask.from_labels(task.target, "multi", one_hot, **splits)
    ranking = NodeTask.from_labels(task.target, "ranking", 20 * task._labels, **splits, num_classes=300)
    for other in (several, ranking):
        found = screen_metapaths(graph, other, longest=2, **FEW)
        assert [list(r) for r in found.chosen[0].path.relations] == graph.planted["relations"]


def test_wide_sparse_features_are_mixed_down() -> None:
    graph, task = make_planted("AP")
    for node_type in graph.node_types:
        x = graph[node_type].x
        graph[node_type].x = torch.cat([x, torch.zeros(len(x), 500)], 1).to_sparse()
    found = screen_metapaths(graph, task, longest=1, width=128, **FEW)
    assert (found.sketched, found.chosen[0].name) == (128, "AP")


def test_types_without_features_are_told_apart_by_node() -> None:
    graph, task = make_planted("APV")
    graph.shared_features = False
    for node_type in graph.node_types:
        del graph[node_type].x
    # the label follows the topics of venues, and there are few of them
    assert screen_metapaths(graph, task, longest=2, **FEW).chosen[0].name == "APV"


def test_what_was_not_looked_at_is_said() -> None:
    graph, task = small()
    assert "were used" in screen_metapaths(graph, task, max_seconds=1e-9, **FEW).unseen[0]
    assert screen_metapaths(graph, task, longest=1, **FEW).unseen == ()


def test_a_result_survives_json() -> None:
    graph, task = small()
    found = screen_metapaths(graph, task, longest=2, **FEW)
    again = Screening.from_dict(found.to_dict())
    assert again == found
    assert again[found.paths[0].name] == found.paths[0]


def test_little_memory_keeps_the_best_paths() -> None:
    graph, task = make_random_schema(0, types=4, relations=8, steps=2)
    whole, tight = (screen_metapaths(graph, task, longest=3, max_bytes=b, width=128, **FEW) for b in (1e9, 3e5))
    assert [p.r_squared for p in tight] == [p.r_squared for p in whole]
    assert tight.chosen[0].path == whole.chosen[0].path


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"longest": 0}, "longest is 0; look at paths of at least one step"),
        ({"permutations": 5}, "permutations is 5; p-values of 5 % need at least 19"),
        ({"length": 5}, "screening has no limit named length; the limits are longest"),
    ],
)
def test_impossible_limits_are_refused(limits: dict[str, Any], message: str) -> None:
    graph, task = small()
    with pytest.raises(InputError, match=message):
        screen_metapaths(graph, task, **limits)


def test_too_few_nodes_and_other_models_are_refused() -> None:
    graph, task = small()
    few = replace(task, train=replace(task.train, nodes=task.train.nodes[:3], labels=task.train.labels[:3]))
    with pytest.raises(InputError, match="there are 3 training nodes; screening needs at least 8"):
        screen_metapaths(graph, few)
    with pytest.raises(InputError, match='not for "gcn"'):
        screen_metapaths(graph, task, {"model": {"name": "gcn"}})


def test_options_have_a_default() -> None:
    graph, task = small()
    stack = RelationStack.from_hetero(graph).row_normalized()
    found = screen(stack, Features.from_hetero(graph), task, options=ScreenOptions(longest=1))
    assert found.permutations == 99


def test_a_busy_machine_tests_the_same_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, task = small()
    quiet = screen_metapaths(graph, task, longest=2, max_seconds=30, **FEW)
    clock = iter(range(0, 10**9, 3600))  # every look at the clock is an hour later
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    busy = screen_metapaths(graph, task, longest=2, max_seconds=30, **FEW)
    assert busy.unseen == ()
    assert [path.to_dict() for path in busy] == [path.to_dict() for path in quiet]
