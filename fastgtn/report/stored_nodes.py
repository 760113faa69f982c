"""The nodes that can be looked up on the page: the most confident mistakes and a random sample, with reasons."""

from __future__ import annotations

from dataclasses import asdict

import torch

from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.explain.reasons import Reasons, explain_node
from fastgtn.nn import NodeClassifier
from fastgtn.relations.paths.metapath import PathNames
from fastgtn.report.judged import Predictions
from fastgtn.report.markup import embedded, joined
from fastgtn.report.names import Names, shortened
from fastgtn.report.tables import Mistake, PathPart, StoredNode
from fastgtn.training.build import Inputs

PATHS, INSTANCES, CLASSES = 6, 2, 5
MOST_BYTES = 6_000_000  # limit of the stored nodes of all runs, which keeps a page under 10 MB
MOST_EDGES = 50_000_000  # read for reasons, if every one needs the whole graph: large graphs get fewer of them
FEWEST = 20


def choose_nodes(task: NodeTask, mistakes: tuple[Mistake, ...], count: int) -> list[int]:
    """The mistakes (at most half of the stored nodes), then labelled nodes drawn at random with a fixed seed."""
    chosen = [mistake.node for mistake in mistakes][: (count + 1) // 2]
    pool = torch.cat([task.val.nodes, task.test_nodes, task.train.nodes])
    order = torch.randperm(len(pool), generator=torch.Generator().manual_seed(0))
    drawn = pool[order[: count + len(chosen)]].tolist()
    return list(dict.fromkeys([*chosen, *drawn]))[:count]


def store_nodes(
    nodes: list[int],
    model: NodeClassifier,
    inputs: Inputs,
    predictions: Predictions,
    names: Names,
    *,
    most_bytes: int = MOST_BYTES,
) -> tuple[tuple[StoredNode, ...], str | None]:
    """Predictions and explanations of as many chosen nodes as fit, and the reason if there are no explanations."""
    target, problem = predictions.task.target, None
    explained = max(FEWEST, MOST_EDGES // (inputs.stack.num_edges + inputs.stack.num_nodes))
    learned = model.backbone.hop_filters()
    path_names = PathNames(inputs.stack.node_types, learned[0].relations if learned else ())
    places = Places(predictions.task, len(predictions.probabilities))
    stored: list[StoredNode] = []
    size = 0
    for node in nodes:
        reasons = None
        if learned and problem is None and len(stored) < explained:
            try:
                given = predictions.given(torch.tensor([node]))
                seen = inputs.seen_by_one(inputs.raw.nodes_of(target).start + node)
                reasons = explain_node(
                    model,
                    seen.stack,
                    seen.features,
                    target,
                    node,
                    class_number=int(given) if given.dim() == 1 else None,
                    top=PATHS,
                    instances=INSTANCES,
                )
            except InputError as error:
                problem = str(error)
        one = _stored(node, reasons, predictions, places, names, path_names)
        size += _bytes(one)
        if size > most_bytes:
            break
        stored.append(one)
    return tuple(stored), problem


def _bytes(node: StoredNode) -> int:
    """The bytes of a node in the page: its data and its line among the suggestions."""
    return len(embedded(asdict(node)).encode()) + len(joined(node.id, node.name).encode()) + 100


class Places:
    """The split of each node, and its label unless that is hidden."""

    def __init__(self, task: NodeTask, num_nodes: int) -> None:
        self.parts = {"train": task.train, "val": task.val}
        self.rows = torch.full((num_nodes,), -1)
        self.split = torch.zeros(num_nodes, dtype=torch.int64)
        for code, nodes in enumerate((task.train.nodes, task.val.nodes, task.test_nodes), 1):
            self.split[nodes] = code
            self.rows[nodes] = torch.arange(len(nodes))

    def of(self, node: int) -> tuple[str, torch.Tensor | None]:
        split = ("none", "train", "val", "test")[int(self.split[node])]
        return split, self.parts[split].labels[self.rows[node]] if split in self.parts else None


def _stored(
    node: int, reasons: Reasons | None, predictions: Predictions, places: Places, names: Names, path_names: PathNames
) -> StoredNode:
    classes = predictions.task.class_names
    row = predictions.probabilities[node]
    top, numbers = row.topk(min(CLASSES, len(row)) if predictions.task.kind != "number" else 0)
    split, truth = places.of(node)
    given = predictions.given(torch.tensor([node]))[0]
    return StoredNode(
        id=names.id(node),
        name=names.name(node),
        split=split,
        truth=None if truth is None else predictions.words(truth),
        predicted=predictions.words(given),
        probabilities=tuple(
            (shortened(classes[c]), round(p, 4)) for c, p in zip(numbers.tolist(), top.tolist(), strict=True)
        ),
        explained=None if reasons is None else shortened(classes[reasons.class_number]),
        logit=0.0 if reasons is None else round(reasons.logit, 4),
        parts=() if reasons is None else _parts(reasons, names, path_names),
        rest=() if reasons is None else _rest(reasons),
        total=_total(predictions.task),
    )


def _total(task: NodeTask) -> str:
    if task.kind != "number":
        return "its logit"
    return "the predicted number" if task.largest is None else "the logarithm of the predicted number"


def _parts(reasons: Reasons, names: Names, path_names: PathNames) -> tuple[PathPart, ...]:
    parts = []
    for reason in reasons.reasons:
        path = reason.path.path
        found = tuple(
            (tuple(names.shown(n, t) for n, t in zip(one.nodes, path.types, strict=True)), round(one.weight, 4))
            for one in reason.instances
        )
        parts.append(PathPart(path_names.short(path), round(reason.contribution, 4), found))
    return tuple(parts)


def _rest(reasons: Reasons) -> tuple[tuple[str, float], ...]:
    rest = (
        ("other meta-paths", reasons.others),
        ("walks that stay at the node", reasons.empty),
        ("own features (γ)", reasons.own),
        ("bias", reasons.bias),
    )
    return tuple((name, round(value, 4)) for name, value in rest)
