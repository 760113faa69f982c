"""Checks of the labels and splits of a graph, and of their position in it."""

from collections.abc import Iterator

import torch
from torch_geometric.data import HeteroData

from fastgtn.data.archive.decode import Labels
from fastgtn.data.checks.finding import Finding, Severity
from fastgtn.data.checks.future import check_future, past_and_future
from fastgtn.data.checks.label_copies import label_copies
from fastgtn.data.checks.leakage import Leak, is_leak, measure_leaks
from fastgtn.data.describe import incoming
from fastgtn.data.moments import moments_of
from fastgtn.data.task import RARE
from fastgtn.data.task_inputs import is_labelled
from fastgtn.errors import InputError

MOST_COPIES = 10
LEAK_COVERAGE = 0.5


def check_labels(labels: Labels) -> list[Finding]:
    """Checks of labels and splits alone."""
    checks = [_split_range, _overlapping_splits, _split_sizes]
    wrong = list(_label_values(labels))
    if not wrong:  # the other checks count the nodes of each class
        checks += [_unlabelled, _untrained_classes, _rare_class]
    return [*wrong, *(found for check in checks for found in check(labels))]


def check_targets(graph: HeteroData, labels: Labels, path_length: int) -> list[Finding]:
    """Checks of the labelled nodes in the graph: which types reach them, and whether a relation reveals the label."""
    moments = moments_of(graph, labels.target)
    past = graph if moments is None else past_and_future(graph, labels.target, moments)[0]
    leaks = [_leak_finding(leak) for leak in measure_leaks(past, labels) if is_leak(leak)]
    leaks += check_future(graph, labels)
    copies = [_copy_finding(name, labels) for name in label_copies(graph, labels)[:MOST_COPIES]]
    return [*_isolated_targets(graph, labels), *_unreachable(graph, labels, path_length), *leaks, *copies]


def _splits(labels: Labels) -> dict[str, torch.Tensor]:
    return {"train": labels.train, "test": labels.test} | ({} if labels.val is None else {"val": labels.val})


def _label_values(labels: Labels) -> Iterator[Finding]:
    try:
        labels.classes()
    except InputError as error:
        message = str(error)
        advice = 'Give each node one class 0, 1, 2 …, or for kind "multi" a row of zeros and ones; name every class.'
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
        missing = int(((y == 0).all(1) if labels.kind == "multi" else ~is_labelled(y, labels.kind)).sum())
        if missing:
            severity: Severity = "warning" if labels.kind == "multi" else "error"
            message = f"{missing} of {len(nodes)} nodes of the {name} split have no label."
            yield Finding("unlabelled nodes", severity, message, "Label them, or take them out of the split.")


def _overlapping_splits(labels: Labels) -> Iterator[Finding]:
    splits = {name: set(nodes.tolist()) for name, nodes in _splits(labels).items()}
    names = list(splits)
    for k, one in enumerate(names):
        if len(splits[one]) < len(_splits(labels)[one]):
            yield Finding("overlapping splits", "error", f"The {one} split contains a node twice.", "List it once.")
        for other in names[k + 1 :]:
            both = len(splits[one] & splits[other])
            if both:
                message = f"{both} nodes are in the {one} and in the {other} split."
                yield Finding("overlapping splits", "error", message, "Keep each node in one split only.")


def _split_sizes(labels: Labels) -> Iterator[Finding]:
    if not len(labels.train):
        yield Finding("splits", "error", "There are no training nodes.", "Add at least one labelled node.")
    if labels.val is None:
        advice = "It is drawn from the training nodes with the seed; store one to keep it fixed."
        yield Finding("splits", "note", "There is no validation split.", advice)
    if not len(labels.test):
        yield Finding("splits", "warning", "There are no test nodes.", "Add some to evaluate the model.")


def _untrained_classes(labels: Labels) -> Iterator[Finding]:
    if labels.kind == "number":
        return
    y = labels.labels[labels.train[(labels.train >= 0) & (labels.train < len(labels.labels))]]
    count = len(labels.classes())
    seen = y.sum(0) if labels.kind == "multi" else torch.bincount(y[y >= 0], minlength=count)
    absent = int((seen == 0).sum())
    if absent and len(labels.train):
        message = f"{absent} of {count} classes have no training node."
        tested = _present(labels, labels.test, count) & (seen == 0)
        if labels.val is not None:
            tested &= ~_present(labels, labels.val, count)
        if bool(tested.any()):
            message += f" Only test nodes have {int(tested.sum())} of them; the model still has outputs for these."
        yield Finding("classes", "warning", message, "They cannot be learned: draw another split or merge classes.")


def _present(labels: Labels, nodes: torch.Tensor, count: int) -> torch.Tensor:
    """Which classes some of the nodes have."""
    y = labels.labels[nodes[(nodes >= 0) & (nodes < len(labels.labels))]]
    return (y.sum(0) if labels.kind == "multi" else torch.bincount(y[y >= 0], minlength=count)) > 0


def _rare_class(labels: Labels) -> Iterator[Finding]:
    if labels.kind != "single" or not len(labels.train):
        return
    y, names = labels.labels[labels.train], labels.classes()
    shares = torch.bincount(y[y >= 0], minlength=len(names)) / max(len(y), 1)
    if len(names) > 1 and float(shares.min()) < RARE / len(names):
        rarest, commonest = int(shares.argmin()), int(shares.argmax())
        yield Finding(
            "class balance",
            "warning",
            f'"{names[rarest]}" has {float(shares[rarest]):.1%} of the training nodes; always guessing '
            f'"{names[commonest]}" would be right for {float(shares[commonest]):.1%}.',
            "Judge by average precision or macro-F1, as training does here by default; fit.aim chooses a threshold.",
        )


def _isolated_targets(graph: HeteroData, labels: Labels) -> Iterator[Finding]:
    degree = torch.zeros(graph[labels.target].num_nodes, dtype=torch.int64)
    for edge_type in graph.edge_types:
        if edge_type[2] == labels.target:
            degree += incoming(graph, edge_type)
    nodes = torch.cat(list(_splits(labels).values()))
    lonely = int((degree[nodes] == 0).sum())
    if lonely:
        yield Finding(
            "isolated targets",
            "warning",
            f"{lonely} of {len(nodes)} nodes of the splits receive no edge.",
            "They can be predicted only from their own features: add a relation that reaches them, or expect errors.",
        )


def _unreachable(graph: HeteroData, labels: Labels, path_length: int) -> Iterator[Finding]:
    """Walk from the nodes of the splits against the direction of messages, one relation per step."""
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
            break  # longer paths reach no further types
    for node_type, mask in reached.items():
        if len(mask) and not bool(mask.any()):
            yield Finding(
                "unreachable types",
                "warning",
                f'No meta-path of up to {path_length} relations leads from "{labels.target}" to "{node_type}".',
                "Add the reverse relations, use longer paths, or remove the type.",
            )


def _leak_finding(leak: Leak) -> Finding:
    source, name, target = leak.relation
    covers = leak.coverage >= LEAK_COVERAGE
    severity: Severity = "note"
    if covers:
        severity = "error" if leak.is_certain else "warning"
    advice = (
        "If the relation was derived from the label (a paper's venue when the venue is the label), remove it and its "
        "reverse, or the edges of the labelled nodes."
    )
    if not covers:
        advice = "This is probably a strong but legitimate relation; make sure that it is known before the label is."
    return Finding(
        "label leakage",
        severity,
        f'Neighbours in "{name}" ({source} → {target}) alone predict {leak.agreement:.1%} of the labels correctly, '
        f"for {leak.coverage:.0%} of the labelled nodes, through {leak.neighbours} different neighbours.",
        advice,
    )


def _copy_finding(name: str, labels: Labels) -> Finding:
    how = "rises or falls in a straight line with the number to be predicted"
    if labels.kind != "number":
        how = "is the same for all labelled nodes of a class and differs between classes"
    message = f'The feature "{name}" of "{labels.target}" {how}.'
    return Finding("label leakage", "error", message, "It was derived from the label: leave the column out.")
