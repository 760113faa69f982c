"""FastGTN equals GTN, GCN and MixHop when given their weights: scores of trained models (figures 4, 8 and 9)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import GCNConv, MixHopConv

from fastgtn.bench.cells import dataset_name
from fastgtn.bench.table import Report, Table
from fastgtn.config import Config
from fastgtn.config.tuned_configs import model_values, recipe
from fastgtn.data import NodeTask, load
from fastgtn.errors import InputError
from fastgtn.nn import GTN, FastGTN, NodeClassifier
from fastgtn.nn.conversions import from_gcn, from_mixhop
from fastgtn.relations import RelationStack
from fastgtn.runs import fit
from fastgtn.runs.files import write_json, write_whole
from fastgtn.training.fit import predict_logits

SAMPLES = 50
ROW_STACK = {"graph": {"normalize": "row", "empty_rows": "self"}}
Layer = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """Two models of the same weights on the same nodes."""

    dataset: str
    model: str
    setting: str
    theirs: list[float]
    ours: list[float]
    largest_difference: float  # of any class probability


def exactness_cases(
    datasets: Sequence[str], *, epochs: int, seed: int = 0, data_dir: Path | None = None
) -> tuple[list[Case], list[str]]:
    """GTN on every dataset, GCN and MixHop on graphs with one relation, and the cases that could not be compared."""
    cases, skipped = [], []
    for dataset in datasets:
        name = dataset_name(dataset)
        try:
            graph, task = load(dataset, data_dir=data_dir)
        except InputError as error:
            skipped.append(f"not run: {name}: {error}")
            continue
        if task is None or task.kind == "multi":
            skipped.append(f"not run: {name}: a confidence needs one label per node.")
            continue
        cases.append(gtn_case(dataset, graph, task, epochs=epochs, seed=seed))
        if len(graph.edge_types) == 1:
            cases += [convolution_case(kind, dataset, graph, task, epochs=epochs, seed=seed) for kind in CONVOLUTIONS]
    return cases, skipped


def gtn_case(dataset: str, graph: HeteroData, task: NodeTask, *, epochs: int, seed: int) -> Case:
    """Train a GTN on the row-normalised stack and copy its weights into a FastGTN."""
    fit_values = {"fit": {"epochs": epochs, "seed": seed, "runs": 1}}
    config = Config.of(recipe("gtn", dataset), {"dataset": str(dataset)}, model_values("gtn"), ROW_STACK, fit_values)
    result = fit(graph, task, config)
    gtn = result.model.backbone
    assert isinstance(gtn, GTN)
    fast = NodeClassifier(FastGTN.from_gtn(gtn), task.num_classes)
    fast.head.load_state_dict(result.model.head.state_dict())
    both = [predict_logits(model, result.inputs, task.target) for model in (result.model, fast)]
    own = gtn.gamma / (1 + gtn.gamma)
    setting = f'stack.row_normalized("self") for both; γ {gtn.gamma:g} of GTN is γ {own:.4g} of FastGTN'
    return _case(dataset, "GTN", setting, both, task, seed)


def convolution_case(kind: str, dataset: str, graph: HeteroData, task: NodeTask, *, epochs: int, seed: int) -> Case:
    """Train two PyG layers on the row-normalised graph and copy their weights into FastGTN layers."""
    stack = RelationStack.from_hetero(graph).row_normalized()
    rows, cols, weights = stack[0].coordinates()
    edges = torch.stack([cols, rows])  # PyG writes from → to
    x = graph[task.target].x
    x = x.to_dense() if x.layout != torch.strided else x
    build, convert, setting = CONVOLUTIONS[kind]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers, head = build(x.size(1), 64, task.num_classes)
        parameters = [p for module in (*layers, head) for p in module.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=0.01, weight_decay=5e-4)

        def theirs() -> Tensor:
            return _stacked(x, [lambda h, conv=conv: conv(h, edges, weights) for conv in layers], head)  # type: ignore

        for _ in range(epochs):
            optimizer.zero_grad()
            task.loss(theirs()[task.train.nodes], task.train.labels).backward()
            optimizer.step()
    with torch.no_grad():
        converted = [convert(conv, stack.relations) for conv in layers]
        ours = _stacked(x, [lambda h, model=model: model(h, stack) for model in converted], head)  # type: ignore
        return _case(dataset, kind, setting, [theirs(), ours], task, seed)


def exactness_report(cases: Sequence[Case], skipped: Sequence[str], out: Path, *, command: str) -> Report:
    """The table; the numbers and a figure are written to `out`."""
    values = {"cases": [vars(case) for case in cases]}
    write_json(out / "exactness.json", values)
    if cases:
        write_whole(out / "exactness.png", lambda path: _draw(cases, path))
    rows = [
        [dataset_name(c.dataset), f"FastGTN = {c.model}", f"{c.largest_difference:.1e}", str(len(c.ours)), c.setting]
        for c in cases
    ]
    header = ["dataset", "claim", "largest difference", "nodes", "where it holds"]
    notes = [
        "Trained models; confidences are the largest class probabilities of random test nodes, and the difference is "
        f"that of any class probability. The drawing is {out / 'exactness.png'}.",
        *skipped,
    ]
    return Report("Exactness", command, [Table("Confidence scores", header, rows)], values, notes)


def _gcn(width: int, hidden: int, classes: int) -> tuple[list[nn.Module], nn.Module]:
    return [GCNConv(width, hidden), GCNConv(hidden, classes)], nn.Identity()


def _mixhop(width: int, hidden: int, classes: int) -> tuple[list[nn.Module], nn.Module]:
    first, second = MixHopConv(width, hidden, powers=[0, 1, 2]), MixHopConv(3 * hidden, hidden, powers=[0, 1, 2])
    return [first, second], nn.Linear(3 * hidden, classes)


_SAME_GRAPH = "row-normalised graph without self-loops, every node with in-edges"
CONVOLUTIONS: dict[str, tuple[Callable[..., Any], Callable[..., FastGTN], str]] = {
    "GCN": (_gcn, from_gcn, f"{_SAME_GRAPH}; K 1, C 1, γ ½, all weight on the relation"),
    "MixHop": (_mixhop, from_mixhop, f"{_SAME_GRAPH}; a channel per power, half relation, half identity, γ 0"),
}


def _stacked(x: Tensor, layers: Sequence[Layer], head: nn.Module) -> Tensor:
    for number, layer in enumerate(layers):
        x = layer(F.relu(x) if number else x)
    result: Tensor = head(x)
    return result


def _case(dataset: str, model: str, setting: str, logits: list[Tensor], task: NodeTask, seed: int) -> Case:
    order = torch.randperm(len(task.test_nodes), generator=torch.Generator().manual_seed(seed))
    nodes = task.test_nodes[order[:SAMPLES]]
    theirs, ours = (task.probabilities(part[nodes].double()) for part in logits)
    first, second = (p.max(1).values.tolist() for p in (theirs, ours))
    return Case(dataset_name(dataset), model, setting, first, second, float((theirs - ours).abs().max()))


def _draw(cases: Sequence[Case], path: Path) -> None:
    figure = Figure(figsize=(3.2 * len(cases), 3.4), layout="constrained")
    for axes, case in zip(figure.subplots(1, len(cases), squeeze=False)[0], cases, strict=True):
        axes.plot([0, 1], [0, 1], color="#c2410c", linewidth=0.8)
        axes.plot(case.theirs, case.ours, "o", color="#1d4ed8", markersize=3)
        axes.set(xlabel=case.model, ylabel="FastGTN", title=f"{case.dataset}: {case.largest_difference:.0e} apart")
        axes.set_aspect("equal")
    figure.savefig(path, dpi=120)
