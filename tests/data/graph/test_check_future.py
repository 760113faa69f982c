"""The check of a graph finds labels that the future gives away, and moments that are missing or in the wrong order."""

import copy

import pytest
import torch
from timed_graphs import verdicts, without_moments
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask
from fastgtn.data.archive.decode import Labels
from fastgtn.data.checks import check_graph
from fastgtn.data.checks.finding import Finding

GRAPH, TASK = verdicts(customers=120)
MOMENTS = GRAPH["customer"].as_of


def findings(graph: HeteroData, task: NodeTask = TASK, check: str = "future") -> list[Finding]:
    return [found for found in check_graph(graph, Labels.of(task)) if found.check == check]


def test_with_moments_there_is_nothing_to_find() -> None:
    assert not findings(GRAPH)
    assert not findings(GRAPH, check="label leakage")


def test_later_edges_that_reveal_the_label_are_an_error() -> None:
    graph = without_moments(GRAPH)
    (unknown,) = findings(graph)
    assert unknown.severity == "warning"
    assert 'the "customer" nodes have no moments, so all edges are seen' in unknown.message
    graph["customer"].time = MOMENTS
    (error,) = findings(graph)
    assert error.severity == "error"
    assert (
        'Edges of "judged" (customer → court) that are later than the nodes themselves predict 100.0%' in error.message
    )
    assert "as_of" in error.advice
    for name in (("customer", "judged", "court"), ("court", "rev_judged", "customer")):
        del graph[name]
    (warning,) = findings(graph)
    assert warning.severity == "warning"
    assert "120 of 120 nodes" in warning.message


def test_leakage_is_measured_on_what_a_node_sees() -> None:
    """A court that judged before the moment reveals the label also with as_of."""
    graph = copy.copy(GRAPH)
    for name in (("customer", "judged", "court"), ("court", "rev_judged", "customer")):
        graph[name].time = GRAPH[name].time - 5
    (leak,) = findings(graph, check="label leakage")
    assert leak.severity == "error"


def test_moments_that_are_missing_or_too_early_are_found() -> None:
    graph = copy.copy(GRAPH)
    graph["customer"].as_of = torch.where(torch.arange(120) < 4, torch.nan, MOMENTS)
    assert any(
        "4 of 120 nodes of the splits have no as_of" in f.message and f.severity == "error" for f in findings(graph)
    )
    graph["customer"].as_of = MOMENTS - 100
    assert any("120 of 120 nodes of the splits have no edge that is older" in f.message for f in findings(graph))
    shuffled = NodeTask.from_labels(
        "customer", "single", TASK._labels, train=range(60, 120), val=range(30, 60), test=range(30)
    )
    (early,) = findings(GRAPH, shuffled)
    assert early.severity == "warning"
    assert "30 of 30 test nodes have moments before the latest training node" in early.message
    untimed = copy.copy(GRAPH)
    for edge_type in GRAPH.edge_types:
        del untimed[edge_type].time
    assert [f.severity for f in findings(untimed)] == ["error"]
    some = copy.copy(GRAPH)
    del some["shop", "rev_visits", "customer"].time
    (note,) = findings(some)
    assert note.severity == "note"
    assert 'Edges of "rev_visits" have no time and are always visible' in note.message


@pytest.mark.parametrize("key", ["time", "as_of"])
def test_damaged_times_are_a_finding(key: str) -> None:
    graph = copy.copy(GRAPH)
    graph["customer"][key] = torch.zeros(3)
    (found,) = findings(graph, check="times")
    assert found.severity == "error"
    assert f'Node type "customer": {key} must be one number each' in found.message
