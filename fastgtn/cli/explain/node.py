"""`fastgtn explain RUN --node ID`: why one node got its prediction."""

import math
from typing import Any

import torch
from rich.markup import escape
from rich.table import Table
from torch_geometric.data import HeteroData

from fastgtn.cli.output import emit_json, emit_table, say
from fastgtn.data.number_unit import plain_number
from fastgtn.explain import Reason, Reasons
from fastgtn.runs.result import Result
from fastgtn.runs.schema import Schema, node_ids


def explain_one_node(run: Result, node: str, *, of_class: str | None, top: int, as_json: bool) -> None:
    """Print the prediction of one node and the parts of its logit."""
    result = described(run.explain(node, of_class=of_class, top=top), run.graph, run.schema)
    if as_json:
        emit_json({"run": str(run.folder), **result})
    else:
        show(result)


def described(reasons: Reasons, graph: HeteroData, task: Schema) -> dict[str, Any]:
    """The explanation with the names of nodes instead of numbers."""
    return {
        "target": task.target,
        "node": str(node_ids(graph, task.target)[reasons.node]),
        "name": name_of(graph, task.target, reasons.node),
        **_prediction(reasons, task),
        "class": task.class_names[reasons.class_number],
        "logit": reasons.logit,
        "metapaths": [_path(reason, graph) for reason in reasons.reasons],
        "other_paths": reasons.others,
        "empty_path": reasons.empty,
        "own_features": reasons.own,
        "bias": reasons.bias,
    }


def _prediction(reasons: Reasons, task: Schema) -> dict[str, Any]:
    values = task.probabilities(torch.tensor([reasons.logits]))
    named_values = dict(zip(task.class_names, values[0].tolist(), strict=True))
    if task.kind == "number":
        return {"numbers": named_values, "scale": "linear" if task.largest is None else "log"}
    return {"prediction": task.class_names[int(task.chosen(values))], "probabilities": named_values}


def _path(reason: Reason, graph: HeteroData) -> dict[str, Any]:
    types = reason.path.path.types
    instances = [
        {"nodes": [name_of(graph, t, n) for t, n in zip(types, i.nodes, strict=True)], "weight": i.weight}
        for i in reason.instances
    ]
    return {
        "path": reason.path.name,
        "types": list(types),
        "contribution": reason.contribution,
        "weight": reason.path.weight,
        "instances": instances,
    }


def name_of(graph: HeteroData, node_type: str, number: int) -> str:
    """The name of a node, or its id if it has no name."""
    store = graph[node_type]
    return str(store.node_name[number]) if "node_name" in store else str(node_ids(graph, node_type)[number])


def show(result: dict[str, Any]) -> None:
    """One line per part of the logit, the largest first; parts of a logarithm also as factors of the number."""
    say(result["target"], result["name"])
    if "numbers" in result:
        say("predicted", " · ".join(f"{name} {plain_number(value)}" for name, value in result["numbers"].items()))
    else:
        likely = sorted(result["probabilities"].items(), key=lambda item: -item[1])[:5]
        say("classes", " · ".join(f"{name} {100 * p:.1f} %" for name, p in likely))
    is_log = result.get("scale") == "log"
    kind = "logarithm of " if is_log else "" if "numbers" in result else "logit of "
    table = Table(box=None, pad_edge=False, title=f"{kind}{escape(result['class'])}", title_justify="left")
    table.add_column("from")
    table.add_column("adds", justify="right")
    if is_log:
        table.add_column("times", justify="right")
    table.add_column("share %", justify="right")
    table.add_column("heaviest instance", no_wrap=True)

    def parts(value: float) -> list[str]:
        if "numbers" in result and not is_log:
            return [("+" if value >= 0 else "") + plain_number(value)]
        # the z avoids a minus sign before 0.000
        return [f"{value:+z.3f}", *([plain_number(math.exp(value))] if is_log else [])]

    for path in result["metapaths"]:
        first = " ← ".join(path["instances"][0]["nodes"]) if path["instances"] else ""
        table.add_row(escape(path["path"]), *parts(path["contribution"]), f"{100 * path['weight']:.1f}", escape(first))
    rest = {
        "other_paths": "other paths",
        "empty_path": "the node itself (empty path)",
        "own_features": "the node's own features (γ)",
    }
    for key, title in {**rest, "bias": "bias"}.items():
        table.add_row(title, *parts(result[key]), "", "")
    table.add_row("together", *parts(result["logit"]), "", "")
    emit_table(table)
