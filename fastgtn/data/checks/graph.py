"""Checks of a graph, with the severity of each finding and advice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import HeteroData

from fastgtn.data import archive
from fastgtn.data.archive.decode import Labels
from fastgtn.data.checks.finding import Finding
from fastgtn.data.checks.task import check_labels, check_targets
from fastgtn.data.moments import moments_of
from fastgtn.errors import InputError
from fastgtn.relations.times import Times


def check_archive(path: str | Path, *, path_length: int = 4) -> list[Finding]:
    """Check an archive. An archive that cannot be read is also a finding."""
    try:
        graph, labels = archive.read_labels(path)
    except InputError as error:
        advice = "Write the archive again from its source; do not repair it by hand."
        return [Finding("archive", "error", str(error), advice)]
    return check_graph(graph, labels, path_length=path_length)


def check_graph(graph: HeteroData, labels: Labels | None, *, path_length: int = 4) -> list[Finding]:
    """All findings, the most severe first.

    Args:
        path_length: Length of the longest meta-path to learn; types farther from all targets are reported.
    """
    findings = [*_duplicate_ids(graph), *_features(graph), *_differences(graph)]
    dangling = list(_dangling_edges(graph))
    findings += dangling
    if not dangling:  # the other checks follow edges
        findings += [*_duplicate_edges(graph), *_missing_reverse(graph)]
    findings += _negative_weights(graph)
    if labels is None:
        findings.append(Finding("task", "note", "The graph has no labels.", "Give it a task before training."))
        return _sorted(findings)
    label_findings = check_labels(labels)
    findings += label_findings
    times = list(_times(graph))
    findings += times
    if not dangling and not times and not any(found.check in ("labels", "split range") for found in label_findings):
        findings += check_targets(graph, labels, path_length)
    return _sorted(findings)


def _sorted(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda found: ("error", "warning", "note").index(found.severity))


def _duplicate_ids(graph: HeteroData) -> Iterator[Finding]:
    for node_type in graph.node_types:
        if "node_id" not in graph[node_type]:
            continue
        values, counts = np.unique(graph[node_type].node_id, return_counts=True)
        if len(values) < int(counts.sum()):
            example = values[counts > 1][0]
            yield Finding(
                "duplicate ids",
                "error",
                f'{int((counts > 1).sum())} ids of "{node_type}" belong to several nodes, such as {str(example)!r}.',
                "Make ids unique per node type; merge rows of the same node.",
            )


def _features(graph: HeteroData) -> Iterator[Finding]:
    without = [node_type for node_type in graph.node_types if "x" not in graph[node_type]]
    if without:
        message = f"No features: {', '.join(without)}."
        yield Finding("features", "note", message, "An embedding per node will be learned for these types.")
    for node_type in graph.node_types:
        if node_type in without:
            continue
        x = graph[node_type].x
        if not bool(torch.isfinite(x.values() if x.layout == torch.sparse_csr else x).all()):
            message = f'Features of "{node_type}" contain NaN or infinite numbers.'
            yield Finding("features", "error", message, "Fill or drop the missing values before building the graph.")


def _differences(graph: HeteroData) -> Iterator[Finding]:
    nodes = graph.encoding["nodes"] if "encoding" in graph else {}
    for node_type, each in nodes.items():
        names = [column["column"] for column in each["columns"] if column.get("difference")]
        if names:
            yield Finding(
                "dates",
                "note",
                f'"{node_type}" has features of days between two dates: {", ".join(names)}.',
                "Remove dates from features that are known only after the label.",
            )


def _dangling_edges(graph: HeteroData) -> Iterator[Finding]:
    for source, name, target in graph.edge_types:
        edges = graph[source, name, target].edge_index
        ends = torch.tensor([graph[source].num_nodes, graph[target].num_nodes])[:, None]
        outside = int(((edges < 0) | (edges >= ends)).any(0).sum())
        if outside:
            message = f'{outside} edges of "{name}" lead to nodes that do not exist.'
            yield Finding("dangling edges", "error", message, "Drop these edges, or add the missing nodes.")


def _duplicate_edges(graph: HeteroData) -> Iterator[Finding]:
    for edge_type in graph.edge_types:
        keys = _edge_keys(graph, edge_type)
        repeated = len(keys) - len(np.unique(keys))
        if repeated:
            yield Finding(
                "duplicate edges",
                "note",
                f'{repeated} edges of "{edge_type[1]}" are stored more than once.',
                "They count as heavier edges. If that is not intended, drop them or merge them into edge weights.",
            )


def _times(graph: HeteroData) -> Iterator[Finding]:
    try:
        Times.of_hetero(graph)
        for node_type in graph.node_types:
            moments_of(graph, node_type)
    except InputError as error:
        message = str(error)
        yield Finding("times", "error", message[:1].upper() + message[1:], "Correct the times, or leave them out.")


def _negative_weights(graph: HeteroData) -> Iterator[Finding]:
    for edge_type in graph.edge_types:
        store = graph[edge_type]
        negative = int((store.edge_weight < 0).sum()) if "edge_weight" in store else 0
        if negative:
            yield Finding(
                "negative weights",
                "warning",
                f'{negative} edges of "{edge_type[1]}" have negative weights.',
                "GTN and models that normalise by degree refuse them: drop these edges, take absolute values, or move "
                "them into a separate relation.",
            )


def _missing_reverse(graph: HeteroData) -> Iterator[Finding]:
    """A path can return over a relation only if the reverse relation exists."""
    reverses: dict[tuple[str, str], list[Any]] = {}
    for source, name, target in graph.edge_types:
        keys = np.unique(_edge_keys(graph, (source, name, target), flipped=True))
        reverses.setdefault((target, source), []).append(keys)
    for edge_type in graph.edge_types:
        keys = np.unique(_edge_keys(graph, edge_type))
        candidates = reverses.get((edge_type[0], edge_type[2]), [])
        if not any(np.array_equal(keys, other) for other in candidates):
            yield Finding(
                "missing reverse",
                "warning",
                f'"{edge_type[1]}" ({edge_type[0]} → {edge_type[2]}) has no reverse relation: '
                f"no meta-path leads from {edge_type[0]} back to {edge_type[2]} this way.",
                "Add it: reverse = true in graph.toml, or torch_geometric.transforms.ToUndirected().",
            )


def _edge_keys(graph: HeteroData, edge_type: tuple[str, str, str], *, flipped: bool = False) -> Any:
    start, end = graph[edge_type].edge_index.numpy()
    if flipped:
        return end * graph[edge_type[0]].num_nodes + start
    return start * graph[edge_type[2]].num_nodes + end
