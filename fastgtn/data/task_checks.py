"""What may be wrong with the labels and splits of a graph, and with their place in it."""

from collections.abc import Iterator

import torch
from torch_geometric.data import HeteroData

from fastgtn.data.decode import Labels
from fastgtn.data.describe import incoming
from fastgtn.data.finding import Finding, Severity
from fastgtn.data.leakage import Leak, measure_leaks
from fastgtn.errors import InputError

LEAK_SURE, LEAK_LIKELY, LEAK_COVERAGE = 0.98, 0.95, 0.5


def check_labels(labels: Labels) -> list[Finding]:
    """Labels and splits by themselves."""
    checks = [_split_range, _overlapping_splits, _split_sizes]
    wrong = list(_label_values(labels))
    if not wrong:  # the other checks count the nodes of each class
        checks += [_unlabelled, _untrained_classes]
    return [*wrong, *(found for check in checks for found in check(labels))]


def check_targets(graph: HeteroData, labels: Labels, path_length: int) -> list[Finding]:
    """The labelled nodes in the graph: what reaches them, and whether it gives the label away."""
    leaks = [_leak_finding(leak) for leak in measure_leaks(graph, labels) if _is_leak(leak)]
    return [*_isolated_targets(graph, labels), *_unreachable(graph, labels, path_length), *leaks]


def _splits(labels: Labels) -> dict[str, torch.Tensor]:
    return {"train": labels.train, "test": labels.test} | ({} if labels.val is None else {"val": labels.val})


def _label_values(labels: Labels) -> Iterator[Finding]:
    try:
        labels.classes()
    except InputError as error:
        message = str(error)
        advice = 'A node has one class 0, 1, 2 …, or for kind "multi" a row of zeros and ones; name every class.'
        yield Finding("labels", "error", message[:1].upper() + message[1:], advice)


def _split_range(labels: Labels) -> Iterator[Finding]:
    for name, nodes in _splits(labels).items():
        outside = int(((nodes < 0) | (nodes >= len(labels.labels))).sum())
        if outside:
            message = f'{outside} nodes of the {name} split are not among the nodes of "{labels.target}".'
            yield Finding("split range", "error", message, "Number the nodes of a split within the target type.")


def _unlabelled(labels: Labels) -> Iterator[Finding]:
    for name, nodes in _splits(labels).items():
        y = labels.labels[nodes[(nodes >= 0) & (nodes < len(labels.labels))]]
        missing = int(((y == 0).all(1) if labels.kind == "multi" else y < 0).sum())
        if missing:
            severity: Severity = "warning" if labels.kind == "multi" else "error"
            message = f"{missing} of {len(nodes)} nodes of the {name} split have no label."
            yield Finding("unlabelled nodes", severity, message, "Label them, or take them out of the split.")


def _overlapping_splits(labels: Labels) -> Iterator[Finding]:
    splits = {name: set(nodes.tolist()) for name, nodes in _splits(labels).items()}
    names = list(splits)
    for k, one in enumerate(names):
        if len(splits[one]) < len(_splits(labels)[one]):
            yield Finding("overlapping splits", "error", f"The {one} split names a node twice.", "Name it once.")
        for other in names[k + 1 :]:
            both = len(splits[one] & splits[other])
            if both:
                message = f"{both} nodes are in the {one} and in the {other} split."
                yield Finding("overlapping splits", "error", message, "Keep each node in one split only.")


def _split_sizes(labels: Labels) -> Iterator[Finding]:
    if not len(labels.train):
        yield Finding("splits", "error", "There are no training nodes.", "Put at least one labelled node there.")
    if labels.val is None:
        advice = "It is drawn from the training nodes by seed; store one to fix it."
        yield Finding("splits", "note", "There is no validation split.", advice)
    if not len(labels.test):
        yield Finding("splits", "warning", "There are no test nodes.", "Set labelled nodes aside to judge the model.")


def _untrained_classes(labels: Labels) -> Iterator[Finding]:
    y = labels.labels[labels.train[(labels.train >= 0) & (labels.train < len(labels.labels))]]
    count = len(labels.classes())
    seen = y.sum(0) if labels.kind == "multi" else torch.bincount(y[y >= 0], minlength=count)
    absent = int((seen == 0).sum())
    if absent and len(labels.train):
        message = f"{absent} of {count} classes have no training node."
        yield Finding("classes", "warning", message, "They cannot be learned: draw another split or merge classes.")


def _isolated_targets(graph: HeteroData, labels: Labels) -> Iterator[Finding]:
    degree = torch.zeros(graph[labels.target].num_nodes, dtype=torch.int64)
    for edge_type in graph.edge_types:
        if edge_type[2] == labels.target:
            degree += incoming(graph, edge_type)
    nodes = torch.cat(list(_splits(labels).values()))
    lonely = int((degree[nodes] == 0).sum())
    if lonely:
        yield Finding(
            "isolated targets", "warning", f"{lonely} of {len(nodes)} nodes of the splits receive no edge.",
            "Only their own features speak for them: add a relation that reaches them, or expect errors there.",
        )  # fmt: skip


def _unreachable(graph: HeteroData, labels: Labels, path_length: int) -> Iterator[Finding]:
    """Walk from the nodes of the splits against the messages, one relation per step."""
    reached = {t: torch.zeros(graph[t].num_nodes, dtype=torch.bool) for t in graph.node_types}
    reached[labels.target][torch.cat(list(_splits(labels).values()))] = True
    for _ in range(path_length):
        if all(bool(mask.any()) for mask in reached.values() if len(mask)):
            return
        before = {t: mask.clone() for t, mask in reached.items()}
        for edge_type in graph.edge_types:
            start, end = graph[edge_type].edge_index
            reached[edge_type[0]][start[before[edge_type[2]][end]]] = True
        if all(torch.equal(mask, before[t]) for t, mask in reached.items()):
            break  # longer paths reach no more
    for node_type, mask in reached.items():
        if len(mask) and not bool(mask.any()):
            yield Finding(
                "unreachable types", "warning",
                f'No meta-path of up to {path_length} relations leads from "{labels.target}" to "{node_type}".',
                "Add the reverse relations, use longer paths, or leave the type out.",
            )  # fmt: skip


def _is_leak(leak: Leak) -> bool:
    """Nearly all guesses right, and not because one class is nearly everything."""
    return leak.agreement >= LEAK_LIKELY and 1 - leak.agreement <= (1 - leak.guess_by_size) / 4


def _leak_finding(leak: Leak) -> Finding:
    source, name, target = leak.relation
    covers = leak.coverage >= LEAK_COVERAGE
    severity: Severity = "note"
    if covers:
        severity = "error" if leak.agreement >= LEAK_SURE else "warning"
    advice = (
        "If the relation was made from the label (a paper's venue when the venue is asked), remove it with its "
        "reverse, or the edges of the labelled nodes."
    )
    if not covers:
        advice = "Probably a strong but honest relation; make sure that it is known before the label is."
    return Finding(
        "label leakage", severity,
        f'Neighbours in "{name}" ({source} → {target}) alone tell {leak.agreement:.1%} of the labels right, '
        f"for {leak.coverage:.0%} of the labelled nodes, through {leak.neighbours} different neighbours.",
        advice,
    )  # fmt: skip
