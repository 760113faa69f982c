"""Each mistake is found, graded and answered with what to do; a sound graph passes in silence."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask, archive, make_planted
from fastgtn.data.archive.decode import Labels
from fastgtn.data.checks import check_archive, check_graph
from fastgtn.data.checks.finding import Finding
from fastgtn.data.checks.leakage import measure_leaks
from fastgtn.data.describe import describe
from fastgtn.errors import InputError

Shop = tuple[HeteroData, NodeTask]


def found(findings: list[Finding], check: str) -> Finding:
    matching = [finding for finding in findings if finding.check == check]
    assert len(matching) == 1, findings
    assert matching[0].advice
    return matching[0]


@pytest.fixture
def library() -> tuple[HeteroData, Labels]:
    """Sixty books by ten authors; two genres which neither author nor features give away."""
    graph, books = HeteroData(), torch.arange(60)
    graph["book"].num_nodes, graph["author"].num_nodes = 60, 10
    graph["book"].x, graph["author"].x = torch.ones(60, 2), torch.ones(10, 2)
    graph["author", "wrote", "book"].edge_index = torch.stack([books % 10, books])
    graph["book", "by", "author"].edge_index = torch.stack([books, books % 10])
    genres = torch.randint(2, (60,), generator=torch.Generator().manual_seed(0))
    return graph, Labels("book", "single", genres, books[:30], books[30:45], books[45:], ("crime", "romance"))


def test_a_sound_graph_has_no_findings(library: tuple[HeteroData, Labels]) -> None:
    assert check_graph(*library) == []
    graph, task = make_planted()
    assert check_graph(graph, Labels.of(task)) == []


def test_duplicate_ids(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    graph["author"].node_id = np.array(["x", "y", "x", *"abcdefg"])
    finding = found(check_graph(graph, labels), "duplicate ids")
    assert finding.severity == "error"
    assert "'x'" in finding.message


def test_dangling_edges_do_not_break_the_other_checks(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    graph["author", "wrote", "book"].edge_index[0, :3] = 99
    finding = found(check_graph(graph, labels), "dangling edges")
    assert finding.severity == "error"
    assert finding.message.startswith('3 edges of "wrote"')


def test_features_missing_or_not_finite(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    graph["author"].x[0, 0] = float("inf")
    assert found(check_graph(graph, labels), "features").severity == "error"
    del graph["author"].x
    assert found(check_graph(graph, labels), "features").severity == "note"


def test_duplicate_edges(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    for store in graph.edge_stores:
        store.edge_index = torch.cat([store.edge_index, store.edge_index[:, :2]], 1)
    findings = [finding for finding in check_graph(graph, labels) if finding.check == "duplicate edges"]
    assert [finding.severity for finding in findings] == ["note", "note"]
    assert findings[0].message.startswith("2 edges")


def test_missing_reverse_and_what_it_makes_unreachable(library: tuple[HeteroData, Labels]) -> None:
    """Books then receive nothing: no path leads from a book to its author."""
    graph, labels = library
    del graph["author", "wrote", "book"]
    findings = check_graph(graph, labels)
    assert found(findings, "missing reverse").severity == "warning"
    assert 'from "book" to "author"' in found(findings, "unreachable types").message
    assert found(findings, "isolated targets").message.startswith("60 of 60")


def test_reverse_must_have_the_same_edges(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    graph["book", "by", "author"].edge_index = graph["book", "by", "author"].edge_index[:, 1:]
    assert sum(finding.check == "missing reverse" for finding in check_graph(graph, labels)) == 2


def test_a_type_farther_than_the_path_length(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    graph["town"].num_nodes, graph["town"].x = 1, torch.ones(1, 2)
    graph["town", "home", "author"].edge_index = torch.tensor([[0], [0]])
    graph["author", "lives", "town"].edge_index = torch.tensor([[0], [0]])
    assert check_graph(graph, labels, path_length=2) == []
    assert "town" in found(check_graph(graph, labels, path_length=1), "unreachable types").message


def test_isolated_targets(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    for store in graph.edge_stores:
        store.edge_index = store.edge_index[:, :57]
    assert found(check_graph(graph, labels), "isolated targets").message.startswith("3 of 60")


def test_splits(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    train, none = labels.train, torch.empty(0, dtype=torch.int64)
    overlapping = found(check_graph(graph, replace(labels, test=train[:4])), "overlapping splits")
    assert overlapping.message == "4 nodes are in the train and in the test split."
    twice = replace(labels, train=torch.cat([train, train[:1]]))
    assert "contains a node twice" in found(check_graph(graph, twice), "overlapping splits").message
    outside = replace(labels, val=torch.tensor([77]))
    assert found(check_graph(graph, outside), "split range").severity == "error"
    assert found(check_graph(graph, replace(labels, test=none)), "splits").severity == "warning"
    assert found(check_graph(graph, replace(labels, val=None)), "splits").severity == "note"


def test_an_empty_training_split_is_an_error(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    finding = found(check_graph(graph, replace(labels, train=labels.train[:0])), "splits")
    assert (finding.severity, finding.message) == ("error", "There are no training nodes.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class_names": ("crime",)}, "Labels have 2 classes but 1 are declared"),
        ({"kind": "multi"}, 'Labels of a "multi" task cannot have shape [60]'),
        ({"labels": torch.full((60,), 10**9), "class_names": None}, "1,000,000,001 classes are too many"),
        ({"labels": torch.full((60,), -1)}, "None of the 60 nodes has a label"),
    ],
)
def test_labels_that_training_refuses(library: tuple[HeteroData, Labels], change: dict[str, Any], message: str) -> None:
    graph, labels = library
    spoiled = replace(labels, **change)
    finding = found(check_graph(graph, spoiled), "labels")
    assert finding.severity == "error"
    assert finding.message.startswith(message)
    with pytest.raises(InputError, match=re.escape(message[1:])):
        describe(graph, spoiled)
    with pytest.raises(InputError, match=re.escape(message[1:])):
        spoiled.task(val_fraction=0.2, seed=0)


def test_negative_weights(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    graph["author", "wrote", "book"].edge_weight = torch.ones(60).index_fill(0, torch.tensor([0, 7]), -1)
    finding = found(check_graph(graph, labels), "negative weights")
    assert (finding.severity, finding.message) == ("warning", '2 edges of "wrote" have negative weights.')


def test_paths_of_any_length_end_where_nothing_new_is_reached(library: tuple[HeteroData, Labels]) -> None:
    """The town is never reached, so that the walk could go on for ever."""
    graph, labels = library
    graph["town"].num_nodes, graph["town"].x = 1, torch.ones(1, 2)
    assert "town" in found(check_graph(graph, labels, path_length=10**9), "unreachable types").message
    del graph["town"]
    assert check_graph(graph, labels, path_length=10**9) == []


def test_labels(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    y = labels.labels.clone()
    y[:2] = -1
    unlabelled = found(check_graph(graph, replace(labels, labels=y)), "unlabelled nodes")
    assert (unlabelled.severity, unlabelled.message) == ("error", "2 of 30 nodes of the train split have no label.")
    three = replace(labels, class_names=("crime", "romance", "poetry"))
    assert found(check_graph(graph, three), "classes").message == "1 of 3 classes have no training node."
    assert found(check_graph(graph, None), "task").severity == "note"


def add_shelves(graph: HeteroData, shelf: torch.Tensor) -> None:
    graph["shelf"].num_nodes, graph["shelf"].x = int(shelf.max()) + 1, torch.ones(int(shelf.max()) + 1, 2)
    graph["book", "stands", "shelf"].edge_index = torch.stack([torch.arange(60), shelf])
    graph["shelf", "holds", "book"].edge_index = torch.stack([shelf, torch.arange(60)])


def test_a_relation_made_from_the_label_is_an_error(library: tuple[HeteroData, Labels]) -> None:
    """One shelf per genre, as one venue node per venue label. The reverse is not reported again."""
    graph, labels = library
    add_shelves(graph, labels.labels)
    leak = found(check_graph(graph, labels), "label leakage")
    assert leak.severity == "error"
    assert '"stands" (book → shelf) alone predict 100.0%' in leak.message
    assert "2 different neighbours" in leak.message


def test_neighbours_that_simply_tell_a_lot_are_a_warning(library: tuple[HeteroData, Labels]) -> None:
    """Four shelves for two genres, each with one genre only: that may be honest."""
    graph, labels = library
    add_shelves(graph, labels.labels + 2 * (torch.arange(60) % 3 == 0))
    leak = found(check_graph(graph, labels), "label leakage")
    assert (leak.severity, "100.0%" in leak.message) == ("warning", True)


def test_a_feature_made_from_the_label_is_an_error(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    x = torch.randn(60, 3)
    x[:, 1] = 7 - 2 * labels.labels
    graph["book"].x, graph.meta = x, {"features": {"book": ["pages", "rating", "year"]}}
    leak = found(check_graph(graph, labels), "label leakage")
    assert leak.severity == "error"
    assert 'feature "rating" of "book" is the same for all labelled nodes of a class' in leak.message
    graph["book"].x, graph.meta = x.to_sparse_csr(), {}
    assert '"column 1"' in found(check_graph(graph, labels), "label leakage").message
    number = replace(labels, kind="number", labels=(3 * x[:, 2:] + 1), class_names=None)
    assert '"column 2" of "book" rises or falls' in found(check_graph(graph, number), "label leakage").message
    graph["book"].x = torch.where(torch.arange(60)[:, None] == int(labels.train[0]), 0, x)  # one exception is enough
    assert check_graph(graph, labels) == []


def test_a_relation_that_knows_few_nodes_well_is_a_note(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    shelf = torch.arange(2, 62)  # a shelf of its own for each book …
    shelf[:22] = labels.labels[:22]  # … but for 22 of the 45 labelled ones
    add_shelves(graph, shelf)
    assert found(check_graph(graph, labels), "label leakage").severity == "note"


def test_a_helpful_relation_is_no_leak(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    shelf = labels.labels.clone()
    shelf[::5] = 1 - shelf[::5]
    add_shelves(graph, shelf)
    assert check_graph(graph, labels) == []


def test_one_class_for_nearly_everyone_is_no_leak(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    rare = torch.zeros(60, dtype=torch.int64)
    rare[0] = 1
    assert [finding.check for finding in check_graph(graph, replace(labels, labels=rare))] == ["class balance"]


def test_leaks_between_targets_and_of_several_labels(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    same = [(a, b) for a in range(60) for b in range(60) if a != b and labels.labels[a] == labels.labels[b]]
    graph["book", "like", "book"].edge_index = torch.tensor(same).T
    assert '"like"' in found(check_graph(graph, labels), "label leakage").message
    several = replace(labels, kind="multi", labels=torch.nn.functional.one_hot(labels.labels, 2).float())
    assert '"like"' in found(check_graph(graph, several), "label leakage").message


def test_test_labels_are_never_looked_at(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    changed = labels.labels.clone()
    changed[labels.test] = 1 - changed[labels.test]
    assert measure_leaks(graph, labels) == measure_leaks(graph, replace(labels, labels=changed))


def test_a_damaged_archive_is_a_finding(shop: Shop, tmp_path: Path) -> None:
    archive.write(tmp_path / "g.npz", *shop)
    data = (tmp_path / "g.npz").read_bytes()
    (tmp_path / "g.npz").write_bytes(data[: len(data) // 2])
    assert found(check_archive(tmp_path / "g.npz"), "archive").severity == "error"


def test_findings_come_worst_first(library: tuple[HeteroData, Labels]) -> None:
    graph, labels = library
    del graph["author"].x
    add_shelves(graph, labels.labels)
    graph["author", "edits", "book"].edge_index = torch.tensor([[0], [0]])
    severities = [finding.severity for finding in check_graph(graph, labels)]
    assert severities == ["error", "warning", "note"]
