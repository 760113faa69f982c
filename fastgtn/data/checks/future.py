"""Leakage through the future: edges that are later than the labels of the nodes they reach."""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.data.archive.decode import Labels
from fastgtn.data.checks.finding import Finding
from fastgtn.data.checks.leakage import Leak, is_leak, measure_leaks
from fastgtn.data.moments import moments_of
from fastgtn.relations.schema import Relation
from fastgtn.relations.times import Times

COVERAGE = 0.5
BLIND = 0.2  # share of labelled nodes that see nothing, from which on it is worth a warning
HOW = 'Set as_of in [task] of graph.toml, or data["TYPE"].as_of, so that later edges are hidden; see docs/time.md.'


def check_future(graph: HeteroData, labels: Labels) -> Iterator[Finding]:
    """Whether later edges reach labelled nodes, and whether their moments are complete and in order."""
    times, moments = Times.of_hetero(graph), moments_of(graph, labels.target)
    if moments is not None:
        yield from _moments(graph, labels, moments, times)
    elif labels.target in times.nodes:
        yield from _later_edges(graph, labels, times.nodes[labels.target])
    elif times:
        message = f'Nodes or edges have times, but the "{labels.target}" nodes have no moments, so all edges are seen.'
        yield Finding("future", "warning", message, HOW)


def past_and_future(graph: HeteroData, target: str, moments: Tensor) -> tuple[HeteroData, HeteroData]:
    """The graph with the edges of the target nodes before their moments, and the one with the later ones only."""
    times = Times.of_hetero(graph)
    past, future = copy.copy(graph), copy.copy(graph)
    for edge_type in graph.edge_types:
        if target not in (edge_type[0], edge_type[2]):
            continue
        edges = graph[edge_type].edge_index
        near, far = (1, 0) if edge_type[2] == target else (0, 1)
        away = Relation(edge_type[far], edge_type[1], edge_type[near])  # the time of the other end counts
        when = times.of_edges(away, edges[far], times.edges.get(Relation(*edge_type)))
        later = when >= moments[edges[near]]
        past[edge_type].edge_index, future[edge_type].edge_index = edges[:, ~later], edges[:, later]
    return past, future


def _moments(graph: HeteroData, labels: Labels, moments: Tensor, times: Times) -> Iterator[Finding]:
    """The moments of labelled nodes: all there, later in the test than in training, and with something before them."""
    nodes = _labelled(labels)
    missing = int(moments[nodes].isnan().sum())
    if missing:
        message = f"{missing} of {len(nodes)} nodes of the splits have no as_of, so they would see the future."
        yield Finding("future", "error", message, "Give every labelled node its moment.")
    if not times:
        message = f'"{labels.target}" nodes have as_of, but no node and no edge has a time, so nothing can be hidden.'
        yield Finding("future", "error", message, "Add the time of edges or nodes, or leave as_of out.")
        return
    last = moments[labels.train].nan_to_num(nan=-torch.inf).amax() if len(labels.train) else torch.tensor(-torch.inf)
    early = int((moments[labels.test] < last).sum())
    if early:
        message = f"{early} of {len(labels.test)} test nodes have moments before the latest training node."
        advice = (
            'The score describes a random sample. To measure predictions of the future, split by time (by = "time").'
        )
        yield Finding("future", "warning", message, advice)
    past, _ = past_and_future(graph, labels.target, moments)
    sees, had = (_receivers(g, labels.target)[nodes] for g in (past, graph))
    blind = int((had & ~sees).sum())
    if blind > BLIND * len(nodes):
        message = f"{blind} of {len(nodes)} nodes of the splits have no edge that is older than their moment."
        yield Finding(
            "future",
            "warning",
            message,
            "They are predicted from their own features alone. Check that times and moments have one unit.",
        )
    always = [e for e in graph.edge_types if e[2] == labels.target and _has_no_time(times, e)]
    if always:
        listed = ", ".join(f'"{name}"' for _, name, _ in always)
        message = f"Edges of {listed} have no time and are always visible."
        yield Finding("future", "note", message, "Make sure that they were known at the moments of the labels.")


def _later_edges(graph: HeteroData, labels: Labels, own: Tensor) -> Iterator[Finding]:
    """Without moments, the time of a labelled node stands for the time of its label."""
    _, future = past_and_future(graph, labels.target, own)
    nodes = _labelled(labels)
    reached = int(_receivers(future, labels.target)[nodes].sum())
    leaks = [leak for leak in measure_leaks(_of_target(future, labels.target), labels) if _reveals(leak)]
    for leak in leaks:
        source, name, target = leak.relation
        yield Finding(
            "future",
            "error",
            f'Edges of "{name}" ({source} → {target}) that are later than the nodes themselves predict '
            f"{leak.agreement:.1%} of the labels, for {leak.coverage:.0%} of the labelled nodes.",
            HOW,
        )
    if reached and not leaks:
        message = f"{reached} of {len(nodes)} nodes of the splits have edges that are later than the nodes themselves."
        yield Finding("future", "warning", message, f"If they are later than the labels, they leak. {HOW}")


def _labelled(labels: Labels) -> Tensor:
    parts = [labels.train, labels.test] if labels.val is None else [labels.train, labels.val, labels.test]
    return torch.cat(parts)


def _reveals(leak: Leak) -> bool:
    return is_leak(leak) and leak.coverage >= COVERAGE


def _of_target(graph: HeteroData, target: str) -> HeteroData:
    """Only relations of the target, whose edges were divided."""
    kept = copy.copy(graph)
    for edge_type in graph.edge_types:
        if target not in (edge_type[0], edge_type[2]):
            del kept[edge_type]
    return kept


def _receivers(graph: HeteroData, target: str) -> Tensor:
    """Which nodes of a type an edge reaches."""
    found = torch.zeros(int(graph[target].num_nodes or 0), dtype=torch.bool)
    for edge_type in graph.edge_types:
        if edge_type[2] == target:
            found[graph[edge_type].edge_index[1]] = True
    return found


def _has_no_time(times: Times, edge_type: tuple[str, str, str]) -> bool:
    return Relation(*edge_type) not in times.edges and edge_type[0] not in times.nodes
