"""Compute all tables of a report from run folders."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask, checksum
from fastgtn.errors import InputError
from fastgtn.insight.faithfulness import Faithfulness, faithfulness
from fastgtn.insight.ranking import Ranking, rank_metapaths
from fastgtn.insight.report.curves import curve, mean_curve
from fastgtn.insight.report.judged import Predictions, judge, open_split
from fastgtn.insight.report.names import Names
from fastgtn.insight.report.path_tables import filter_maps, first, hop_shares, schema_table, seed_weights
from fastgtn.insight.report.stored_nodes import MOST_BYTES, choose_nodes, store_nodes
from fastgtn.insight.report.tables import RunTables, Spread
from fastgtn.insight.stability import stability
from fastgtn.models import NodeClassifier
from fastgtn.training.build import Inputs
from fastgtn.training.fit import predict_logits
from fastgtn.training.load_run import Run, load_run
from fastgtn.training.results import finished_seeds
from fastgtn.training.runs import stored_config

LISTED, TRIED, RANKED = 12, 10, 200  # paths in a table, in the faithfulness chart, in sums over all paths
MOST_RUNS, MOST_SEEDS = 8, 20


def report_tables(
    folders: Sequence[str | Path], *, nodes: int = 200, data_dir: str | Path | None = None
) -> tuple[RunTables, ...]:
    """The tables of one or several runs.

    Args:
        folders: Run folders, or folders of single seeds.
        nodes: How many nodes can be looked up, over all runs.
    """
    if not 1 <= len(folders) <= MOST_RUNS:
        raise InputError(f"a report shows 1 … {MOST_RUNS} runs, but got {len(folders)}: make several reports.")
    if nodes < 0:
        raise InputError(f"the number of stored nodes must be 0 or more, but got {nodes}.")
    titles = _titles([Path(folder) for folder in folders])
    each, budget = nodes // len(folders), MOST_BYTES // len(folders)
    return tuple(
        _Reader.of(Path(folder), data_dir).tables(title, each, budget)
        for folder, title in zip(folders, titles, strict=True)
    )


@dataclass(frozen=True, eq=False)
class _Reader:
    """A run with its graph, and the model of its best seed."""

    folder: Path
    run: Run
    others: tuple[Run, ...]  # all seeds, the best one among them
    graph: HeteroData
    task: NodeTask
    inputs: Inputs
    model: NodeClassifier
    changed: bool  # whether the graph is another one than that of the training

    @staticmethod
    def of(folder: Path, data_dir: str | Path | None) -> _Reader:
        run = load_run(folder)
        graph, task = run.load_graph(data_dir=data_dir)
        inputs, model = run.prepare(graph)
        now = checksum(run.config.dataset, data_dir=data_dir)
        changed = run.result.get("data_checksum") not in (None, now)
        return _Reader(folder, run, _all_seeds(folder, run), graph, task, inputs, model, changed)

    def tables(self, title: str, num_nodes: int, most_bytes: int) -> RunTables:
        task, run = self.task, self.run
        names = Names(self.graph, task.target)
        predictions = Predictions.of(task, predict_logits(self.model, self.inputs, task.target))
        judged = judge(predictions, names)
        rankings = [self.rank(other) for other in self.others]
        ranking = rankings[[other.folder for other in self.others].index(run.folder)]
        matters, problem = self.matters(ranking)
        stored, no_reasons = store_nodes(
            choose_nodes(task, judged.mistakes, num_nodes), self.model, self.inputs, predictions, names,
            most_bytes=most_bytes,
        )  # fmt: skip
        stable = stability(rankings, top=LISTED) if len(rankings) > 1 else None
        histories = [other.history for other in self.others]
        metric = task.selection_metric
        return RunTables(
            title=title,
            folder=str(self.folder),
            dataset=str(run.result.get("dataset", run.config.dataset)),
            model=run.config.model.label,
            target=task.target,
            kind=task.kind,
            metric=metric,
            seed=run.result["seed"],
            seeds=tuple(other.result["seed"] for other in self.others),
            val=_spread([other.result["val"] for other in self.others]),
            test=_spread([other.result["test"] for other in self.others]),
            facts=self.facts(),
            schema=schema_table(self.graph, self.inputs.stack.relations),
            curves=tuple(
                curve(
                    other.result["seed"],
                    other.result["epoch"],
                    history,
                    ("loss", "val_loss", f"val_{metric}"),
                )
                for other, history in zip(self.others, histories, strict=True)
            ),
            mean_curve=mean_curve(histories, f"val_{metric}"),
            judged=judged,
            ranking=first(ranking, LISTED),
            back=first(self.rank(run, between_targets=True), LISTED),
            hop_shares=hop_shares(ranking),
            filters=filter_maps(self.model),
            stability=stable,
            seed_weights=seed_weights(stable, rankings),
            faithfulness=matters,
            nodes=stored,
            config=stored_config(self.folder).to_toml(),
            checksum=str(run.result.get("data_checksum", "")),
            versions=run.result.get("versions", {}),
            notes=tuple(self.notes(problem, no_reasons)),
        )

    def rank(self, run: Run, *, between_targets: bool = False) -> Ranking:
        model = self.model if run is self.run else run.prepare(self.graph)[1]
        return rank_metapaths(
            model, self.inputs.stack, self.task.target, top=RANKED, between_targets=between_targets,
            features=self.inputs.features,
        )  # fmt: skip

    def matters(self, ranking: Ranking) -> tuple[Faithfulness | None, str | None]:
        split, _ = open_split(self.task)
        try:
            return faithfulness(
                self.model, self.inputs.stack, self.inputs.features, self.task, ranking.paths[:TRIED], split=split
            ), None
        except InputError as error:
            return None, str(error)

    def facts(self) -> tuple[tuple[str, str], ...]:
        task, options = self.task, self.run.config.model
        splits = {"train": len(task.train), "validation": len(task.val), "test": len(task.test_nodes)}
        types = len(self.graph.node_types)
        of_types = f" of {types} types" if types > 1 else ""
        seconds = sum(other.result["seconds"] for other in self.others)
        epochs = ", ".join(str(other.result["epoch"]) for other in self.others)
        return (
            ("Graph", f"{self.inputs.stack.num_nodes:,} nodes{of_types} · "
                      f"{sum(schema_table(self.graph, self.inputs.stack.relations).edges.values()):,} edges"),
            ("Task", f"{task.num_classes} classes of {task.target}"
                     f"{' (several per node)' if task.kind == 'multi' else ''}"),
            ("Split", " · ".join(f"{count:,} {name}" for name, count in splits.items()) + " nodes"),
            ("Model", options.summary),
            ("Training", f"{seconds:.1f} s · chosen epoch{'s' if len(self.others) > 1 else ''} {epochs}"),
        )  # fmt: skip

    def notes(self, not_dropped: str | None, no_reasons: str | None) -> list[str]:
        """What a reader should know before trusting the tables."""
        notes = []
        if self.changed:
            notes.append("The graph has changed since the training: the tables show the model on the graph of today.")
        if self.run.config.model.num_layers > 1:
            notes.append("Meta-paths are those of the first layer: layers do not compose to longer paths.")
        if not_dropped or no_reasons:
            notes.append(f"Some parts are missing: {not_dropped or no_reasons}")
        return notes


def _all_seeds(folder: Path, best: Run) -> tuple[Run, ...]:
    """The finished seeds of a run, the best one among them."""
    if best.folder == folder:
        return (best,)
    seeds = finished_seeds(folder)[:MOST_SEEDS]
    runs = [best if seed == best.result["seed"] else load_run(folder, seed=seed) for seed in seeds]
    return tuple(runs) if best in runs else (best, *runs[:-1])


def _spread(scores: Sequence[dict[str, float]]) -> dict[str, Spread]:
    found = {}
    for name in scores[0]:
        values = [float(score[name]) for score in scores if name in score]
        found[name] = Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)
    return found


def _titles(folders: list[Path]) -> list[str]:
    """The names of the folders, or as much of their paths as tells them apart."""
    parts = [folder.resolve().parts for folder in folders]
    for size in range(1, max(map(len, parts)) + 1):
        titles = ["/".join(part[-size:]) for part in parts]
        if len(set(titles)) == len(titles):
            return titles
    raise InputError(f"the run {folders[0]} is given twice: give each run once.")
