"""Compute all tables of a report from run folders."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.explain.faithfulness import Faithfulness, faithfulness
from fastgtn.explain.ranking import Ranking
from fastgtn.explain.stability import stability
from fastgtn.nn import NodeClassifier
from fastgtn.relations.paths.metapath import PathNames
from fastgtn.report.charts.curves import curve, mean_curve
from fastgtn.report.facts import run_facts
from fastgtn.report.judged import Predictions, judge, open_split
from fastgtn.report.names import Names
from fastgtn.report.path_tables import filter_maps, hop_shares, schema_table, seed_weights
from fastgtn.report.stored_nodes import MOST_BYTES, choose_nodes, store_nodes
from fastgtn.report.tables import Curve, RunTables, Spread
from fastgtn.runs.learned.control import control_seconds
from fastgtn.runs.load import load_run, seeds_of
from fastgtn.runs.records import finished_seeds
from fastgtn.runs.result import Result
from fastgtn.runs.train import stored_config
from fastgtn.training.build import Inputs
from fastgtn.training.fit import predict_logits

LISTED, TRIED, RANKED = 12, 10, 200  # paths in a table, in the faithfulness chart, in sums over all paths
MOST_RUNS, MOST_SEEDS = 8, 20
CONTROL_SECONDS = 60  # the control with uniform filters is trained where it takes less


def report_tables(
    runs: Sequence[str | Path | Result],
    *,
    nodes: int = 200,
    graph: str | Path | None = None,
    data_dir: str | Path | None = None,
) -> tuple[RunTables, ...]:
    """The tables of one or several runs.

    Args:
        runs: Results, run folders, or folders of single seeds.
        nodes: How many nodes can be looked up, over all runs.
        graph: Use this graph for the runs of the folders instead of those that they were trained on.
    """
    if not 1 <= len(runs) <= MOST_RUNS:
        raise InputError(f"a report can show 1 … {MOST_RUNS} runs, but got {len(runs)}: write several reports.")
    if nodes < 0:
        raise InputError(f"the number of stored nodes must be 0 or more, but got {nodes}.")
    titles = _titles(runs)
    each, budget = nodes // len(runs), MOST_BYTES // len(runs)
    opened = [run if isinstance(run, Result) else load_run(run, graph=graph, data_dir=data_dir) for run in runs]
    return tuple(_Reader.of(run).tables(title, each, budget) for run, title in zip(opened, titles, strict=True))


@dataclass(frozen=True, eq=False)
class _Reader:
    """A run with its graph, and the model of its best seed."""

    folder: Path | None
    run: Result
    others: tuple[Result, ...]  # all seeds, the best one among them
    graph: HeteroData
    task: NodeTask
    inputs: Inputs
    model: NodeClassifier
    changed: bool  # whether the graph is another one than that of the training

    @staticmethod
    def of(run: Result) -> _Reader:
        own, task = run.own, run.task
        changed = run.facts.get("data_checksum") not in (None, own.checksum)
        return _Reader(run.run or run.folder, run, _all_seeds(run), own.graph, task, own.inputs, own.model, changed)

    def tables(self, title: str, num_nodes: int, most_bytes: int) -> RunTables:
        task, run = self.task, self.run
        names = Names(self.graph, task.target)
        predictions = Predictions.of(task, predict_logits(self.model, self.inputs, task.target))
        judged = judge(predictions, names)
        rankings = [self.rank(other) for other in self.others]
        ranking = rankings[self.others.index(run)]
        judged_paths = self.judged()
        matters, problem = self.matters(judged_paths)
        stored, no_reasons = store_nodes(
            choose_nodes(task, judged.mistakes, num_nodes),
            self.model,
            self.inputs,
            predictions,
            names,
            most_bytes=most_bytes,
        )
        stable = stability(rankings, top=LISTED) if len(rankings) > 1 and self.has_paths else None
        return RunTables(
            title=title,
            folder="" if self.folder is None else str(self.folder),
            dataset=run.dataset,
            model=run.config.model.label,
            target=task.target,
            kind=task.kind,
            metric=run.chosen_by,
            seed=run.seed,
            seeds=tuple(other.seed for other in self.others),
            val=_spread([other.val for other in self.others]),
            test=_spread([other.test for other in self.others]),
            facts=run_facts(run, self.others, self.graph),
            schema=schema_table(self.graph, self.inputs.stack.relations),
            curves=self.curves(),
            mean_curve=mean_curve([other.history for other in self.others], f"val_{run.chosen_by}"),
            judged=judged,
            ranking=judged_paths,
            back=self.judged(between_targets=True),
            screening=run.screening if self.has_paths else None,
            hop_shares=hop_shares(ranking),
            filters=filter_maps(self.model),
            stability=stable,
            seed_weights=seed_weights(stable, rankings),
            faithfulness=matters,
            nodes=stored,
            config=(run.config if self.folder is None else stored_config(self.folder)).to_toml(),
            checksum=run.data_checksum,
            versions=run.facts.get("versions", {}),
            notes=tuple(self.notes(problem, no_reasons)),
        )

    def curves(self) -> tuple[Curve, ...]:
        """Losses and the chosen metric after every epoch, for each seed."""
        lines = ("loss", "val_loss", f"val_{self.run.chosen_by}")
        return tuple(curve(other.seed, other.epoch, other.history, lines) for other in self.others)

    @property
    def has_paths(self) -> bool:
        """Whether the model learned meta-paths; baselines did not."""
        return bool(self.model.backbone.hop_filters())

    def rank(self, run: Result, *, between_targets: bool = False) -> Ranking:
        return run.metapaths(RANKED, by="share", between_targets=between_targets) if self.has_paths else self.no_paths

    def judged(self, *, between_targets: bool = False) -> Ranking:
        """The ranking by contribution, with its verdict; on small graphs the control is trained for it."""
        if not self.has_paths:
            return self.no_paths
        if control_seconds(self.run) <= CONTROL_SECONDS:
            self.run.control()
        return self.run.metapaths(LISTED, between_targets=between_targets)

    @property
    def no_paths(self) -> Ranking:
        """The ranking of a model that learns none."""
        names = PathNames(self.inputs.stack.node_types, ())
        return Ranking(self.task.target, (), 0.0, (), 0.0, 0, 0, False, "effective", names)

    def matters(self, ranking: Ranking) -> tuple[Faithfulness | None, str | None]:
        if not self.has_paths:
            return None, None
        split, _ = open_split(self.task)
        seen, _ = self.run.own.seen
        try:
            return faithfulness(
                self.model,
                seen.stack,
                seen.features,
                self.run.own.seen_task(self.task),
                ranking.paths[:TRIED],
                split=split,
                metric=self.run.chosen_by,
            ), None
        except InputError as error:
            return None, str(error)

    def notes(self, not_dropped: str | None, no_reasons: str | None) -> list[str]:
        """Notes that a reader should see before trusting the tables."""
        notes = []
        if self.changed:
            notes.append("The graph has changed since the training: the tables show the model on the present graph.")
        if not self.has_paths:
            notes.append("This model learns no meta-paths, so the page has no sections about them.")
        elif self.run.config.model.num_layers > 1:
            notes.append("Meta-paths are those of the first layer: layers do not compose to longer paths.")
        if not_dropped or no_reasons:
            notes.append(f"Some parts are missing: {not_dropped or no_reasons}")
        return notes


def _all_seeds(best: Result) -> tuple[Result, ...]:
    """The finished seeds of a run, the best one among them."""
    if best.run is None:
        return (best,)
    found = seeds_of(best, finished_seeds(best.run)[:MOST_SEEDS], best.run)
    return tuple(found) if best in found else (best, *found[:-1])


def _spread(scores: Sequence[dict[str, float]]) -> dict[str, Spread]:
    found = {}
    for name in scores[0]:
        values = [float(score[name]) for score in scores if name in score]
        found[name] = Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)
    return found


def _titles(runs: Sequence[str | Path | Result]) -> list[str]:
    """The names of the folders, with more of their paths if names coincide; results from Python are numbered."""
    folders = [(run.run or run.folder) if isinstance(run, Result) else Path(run) for run in runs]
    parts = [(f"result {n}",) if f is None else f.resolve().parts for n, f in enumerate(folders, 1)]
    for size in range(1, max(map(len, parts)) + 1):
        titles = ["/".join(part[-size:]) for part in parts]
        if len(set(titles)) == len(titles):
            return titles
    raise InputError(f"the run {folders[0]} is given twice: give each run once.")
