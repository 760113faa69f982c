"""`fastgtn explain RUN --node ID`: why one node got its prediction."""

from typing import Any

import numpy as np
import torch
from rich.markup import escape
from rich.table import Table
from torch_geometric.data import HeteroData

from fastgtn.cli.output import emit_json, emit_table, say
from fastgtn.data import NodeTask
from fastgtn.errors import InputError, nearest
from fastgtn.insight import Reasons, explain_node
from fastgtn.training.load_run import Run
from fastgtn.training.schema import node_ids

FEW_NODES = 10_000  # among more of them the nearest name takes too long to find


def explain_one_node(
    run: Run, graph: HeteroData, task: NodeTask, node: str, *, of_class: str | None, top: int, as_json: bool
) -> None:
    """Print the prediction of one node and what it is made of."""
    if of_class is not None and of_class not in task.class_names:
        raise InputError(f'no class "{of_class}"; {nearest(of_class, task.class_names)}')
    inputs, model = run.prepare(graph)
    reasons = explain_node(
        model, inputs.stack, inputs.features, task.target, find_node(graph, task.target, node), top=top,
        class_number=None if of_class is None else task.class_names.index(of_class),
    )  # fmt: skip
    result = described(reasons, graph, task)
    if as_json:
        emit_json({"run": str(run.folder), **result})
    else:
        show(result)


def find_node(graph: HeteroData, target: str, wanted: str) -> int:
    """The number of a node by its id, or by its name if only one has it."""
    labels = [node_ids(graph, target).astype(str)]
    if "node_name" in graph[target]:
        labels.append(np.asarray(graph[target].node_name).astype(str))
    for known in labels:
        found = np.flatnonzero(known == wanted)
        if len(found) == 1:
            return int(found[0])
        if len(found):
            raise InputError(f'{len(found)} {target} nodes are called "{wanted}": give the id of one of them.')
    few = [*labels[0], *labels[-1]] if len(labels[0]) <= FEW_NODES else []
    hint = nearest(wanted, few) if few and len(few) < 30 else "ids are those of the graph (fastgtn predict lists them)."
    raise InputError(f'no {target} node "{wanted}"; {hint}')


def described(reasons: Reasons, graph: HeteroData, task: NodeTask) -> dict[str, Any]:
    """Reasons with the names that people know."""
    probabilities = task.probabilities(torch.tensor([reasons.logits]))[0].tolist()
    paths = []
    for reason in reasons.reasons:
        types = reason.path.path.types
        instances = [
            {"nodes": [name_of(graph, t, n) for t, n in zip(types, i.nodes, strict=True)], "weight": i.weight}
            for i in reason.instances
        ]
        paths.append({
            "path": reason.path.name, "types": list(types), "contribution": reason.contribution,
            "weight": reason.path.weight, "instances": instances,
        })  # fmt: skip
    return {
        "target": task.target, "node": str(node_ids(graph, task.target)[reasons.node]),
        "name": name_of(graph, task.target, reasons.node),
        "prediction": task.class_names[int(np.argmax(reasons.logits))],
        "probabilities": dict(zip(task.class_names, probabilities, strict=True)),
        "class": task.class_names[reasons.class_number], "logit": reasons.logit,
        "metapaths": paths, "other_paths": reasons.others, "empty_path": reasons.empty,
        "own_features": reasons.own, "bias": reasons.bias,
    }  # fmt: skip


def name_of(graph: HeteroData, node_type: str, number: int) -> str:
    """The name of a node, else its id."""
    store = graph[node_type]
    return str(store.node_name[number]) if "node_name" in store else str(node_ids(graph, node_type)[number])


def show(result: dict[str, Any]) -> None:
    """One line per part of the logit, the largest first."""
    say(result["target"], result["name"])
    likely = sorted(result["probabilities"].items(), key=lambda item: -item[1])[:5]
    say("classes", " · ".join(f"{name} {100 * p:.1f} %" for name, p in likely))
    table = Table(box=None, pad_edge=False, title=f"logit of {escape(result['class'])}", title_justify="left")
    table.add_column("from")
    table.add_column("adds", justify="right")
    table.add_column("share %", justify="right")
    table.add_column("heaviest instance", no_wrap=True)
    for path in result["metapaths"]:
        first = " ← ".join(path["instances"][0]["nodes"]) if path["instances"] else ""
        table.add_row(
            escape(path["path"]), f"{path['contribution']:+.3f}", f"{100 * path['weight']:.1f}", escape(first)
        )
    rest = {"other_paths": "other paths", "empty_path": "the node, by its walks", "own_features": "the node, by γ"}
    for key, title in {**rest, "bias": "bias"}.items():
        table.add_row(title, f"{result[key]:+.3f}", "", "")
    table.add_row("together", f"{result['logit']:+.3f}", "", "")
    emit_table(table)
