"""What may be wrong with a graph, how bad it is, and what to do about it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import HeteroData

from fastgtn.data import archive
from fastgtn.data.decode import Labels
from fastgtn.data.finding import Finding
from fastgtn.data.task_checks import check_labels, check_targets
from fastgtn.errors import InputError


def check_archive(path: str | Path, *, path_length: int = 4) -> list[Finding]:
    """Check an archive; one that cannot be read is a finding, too."""
    try:
        graph, labels = archive.read_labels(path)
    except InputError as error:
        advice = "Write the archive again from its source; do not repair it by hand."
        return [Finding("archive", "error", str(error), advice)]
    return check_graph(graph, labels, path_length=path_length)


def check_graph(graph: HeteroData, labels: Labels | None, *, path_length: int = 4) -> list[Finding]:
    """Everything found, the worst first.

    Args:
        path_length: Longest meta-path that will be learned: what lies farther from all targets is reported.
    """
    findings = [*_duplicate_ids(graph), *_features(graph)]
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
    if not dangling and not any(found.check in ("labels", "split range") for found in label_findings):
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
                "duplicate ids", "error",
                f'{int((counts > 1).sum())} ids of "{node_type}" stand for several nodes, such as {str(example)!r}.',
                "Make ids unique per node type; merge rows that mean the same node.",
            )  # fmt: skip


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
            message = f'Features of "{node_type}" hold NaN or infinite numbers.'
            yield Finding("features", "error", message, "Fill or drop the missing values before building the graph.")


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
                "duplicate edges", "note", f'{repeated} edges of "{edge_type[1]}" are stored more than once.',
                "They count as heavier edges; drop them, or merge them into edge weights, if that is not meant.",
            )  # fmt: skip


def _negative_weights(graph: HeteroData) -> Iterator[Finding]:
    for edge_type in graph.edge_types:
        store = graph[edge_type]
        negative = int((store.edge_weight < 0).sum()) if "edge_weight" in store else 0
        if negative:
            yield Finding(
                "negative weights", "warning", f'{negative} edges of "{edge_type[1]}" have negative weights.',
                "GTN and models that normalise by degrees refuse them: drop these edges, take absolute values, or put "
                "them into a relation of their own.",
            )  # fmt: skip


def _missing_reverse(graph: HeteroData) -> Iterator[Finding]:
    """A path can only be walked back over a relation whose reverse is a relation, too."""
    reverses: dict[tuple[str, str], list[Any]] = {}
    for source, name, target in graph.edge_types:
        keys = np.unique(_edge_keys(graph, (source, name, target), flipped=True))
        reverses.setdefault((target, source), []).append(keys)
    for edge_type in graph.edge_types:
        keys = np.unique(_edge_keys(graph, edge_type))
        candidates = reverses.get((edge_type[0], edge_type[2]), [])
        if not any(np.array_equal(keys, other) for other in candidates):
            yield Finding(
                "missing reverse", "warning",
                f'"{edge_type[1]}" ({edge_type[0]} → {edge_type[2]}) has no reverse relation: '
                f"no meta-path leads from {edge_type[0]} back to {edge_type[2]} this way.",
                "Add it: reverse = true in graph.toml, or torch_geometric.transforms.ToUndirected().",
            )  # fmt: skip


def _edge_keys(graph: HeteroData, edge_type: tuple[str, str, str], *, flipped: bool = False) -> Any:
    start, end = graph[edge_type].edge_index.numpy()
    if flipped:
        return end * graph[edge_type[0]].num_nodes + start
    return start * graph[edge_type[2]].num_nodes + end
