"""Large graphs: the models of the paper's table 2 in mini-batches, on graphs of the shape of OAG."""

from collections.abc import Callable, Sequence
from pathlib import Path

from fastgtn.bench import paper
from fastgtn.bench.ablation import WITHOUT_IDENTITY
from fastgtn.bench.cells import Cell, Plan, plan
from fastgtn.bench.nodes import nodes_report
from fastgtn.bench.paper import title_of
from fastgtn.bench.table import Report, Table
from fastgtn.data import archive
from fastgtn.data.metrics.ranking import MRR, NDCG
from fastgtn.data.synthetic.oag import make_oag
from fastgtn.data.synthetic.oag.shape import oag_shape

MODELS = ("mlp", "node2vec", "gcn", "gat", "rgcn", "hgt", paper.NO_IDENTITY, "gtn", "fast_gtn")


def made_graph(shape: str, folder: Path, *, scale: float, seed: int, progress: Callable[[str], None]) -> Path:
    """The archive of an OAG-shaped graph, which is generated if it does not exist."""
    oag_shape(shape, scale)  # refuse names and sizes first
    size = "" if scale == 1 else f"-x{scale:g}".replace(".", "_")
    path = folder / f"{shape}{size}-seed-{seed}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        graph, task = make_oag(shape, scale=scale, seed=seed, progress=progress)
        archive.write(path, graph, task, meta=graph.meta)
    return path


def large_plans(
    shape: str, graph: Path, models: Sequence[str], *, runs: int, seed: int, epochs: int | None, batch_size: int
) -> list[Plan]:
    """Each model with its config for graphs of this shape, or with defaults; all with the same batches."""
    batch = {"batch": {"size": batch_size}} | ({} if epochs is None else {"fit": {"epochs": epochs}})
    plans = []
    for name in models:
        base, extra = ("gtn", batch | WITHOUT_IDENTITY) if name == paper.NO_IDENTITY else (name, batch)
        plans.append(plan(str(graph), base, runs=runs, seed=seed, extra=extra, as_model=name, recipe_of=shape))
    return plans


def large_report(cells: Sequence[Cell], *, command: str, seeds: Sequence[int]) -> Report:
    """Scores of all models, then the paper's on the real graphs, which are no longer public."""
    report = nodes_report(cells, command=command, seeds=seeds)
    header = ["model", *(f"{name} {metric}" for name in paper.OAG for metric in (NDCG.title, MRR.title))]
    rows = [
        [title_of(model), *(f"{score:.2f}" for pair in pairs for score in pair)]
        for model, pairs in paper.TABLE_2.items()
    ]
    note = (
        "The graphs were generated with the sizes and schema of OAG. Scores are comparable with each other, but not "
        "with the paper's, which are of the real graphs."
    )
    tables = [*report.tables, Table("The paper's table 2, real OAG", header, rows)]
    return Report("Large graphs", command, tables, report.values, [*report.notes, note])
