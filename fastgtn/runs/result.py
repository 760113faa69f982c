"""The result of a training: the chosen model, its scores, and methods to predict, explain and report.

`fit` returns one for a graph in memory, `load_run` opens one from a folder, and both behave the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from fastgtn.config import Config
from fastgtn.data import NodeTask, as_hetero
from fastgtn.data.majority import majority_score
from fastgtn.data.metrics import main_metric, title_of
from fastgtn.errors import InputError
from fastgtn.explain import Ranking, Reasons
from fastgtn.explain.verdict import Control, Learned
from fastgtn.nn import NodeClassifier
from fastgtn.notebook import html_table
from fastgtn.runs.learned.control import control_of, learned_of
from fastgtn.runs.learned.decided import screening_of
from fastgtn.runs.learned.ranking import ranking_of
from fastgtn.runs.learned.reasons import reasons_of
from fastgtn.runs.on_graph import Nodes, OnGraph, node_numbers, on_graph, table_on
from fastgtn.runs.records import read_history
from fastgtn.runs.save import save_result
from fastgtn.runs.schema import Schema
from fastgtn.runs.scoring.embeddings import Embeddings, embeddings_of
from fastgtn.runs.scoring.evaluate import score_split
from fastgtn.runs.summary import SeedFacts, seed_facts
from fastgtn.screening import Screening
from fastgtn.training.build import Inputs
from fastgtn.training.fit import Trained
from fastgtn.training.loop import Record

if TYPE_CHECKING:
    import pyarrow as pa

    from fastgtn.runs.scoring.new.newcomers import Newcomers


@dataclass(frozen=True, eq=False, repr=False)
class Result(SeedFacts):
    """A trained model with the weights of the chosen epoch. Get one from `fastgtn.fit` or `fastgtn.load_run`.

    >>> import fastgtn
    >>> result = fastgtn.fit(*fastgtn.load("planted"), {"fit": {"epochs": 40}})
    >>> result.metapaths(3)[0].name
    'APVPA'
    >>> result.predict(nodes=[0, 1]).column_names[:3]
    ['node', 'split', 'predicted']

    Args:
        schema: The node types, relations and features that the model expects of a graph.
        model: The trained model, in evaluation mode, for the graph that it was trained on.
        facts: The content of `result.json`: seed, epoch, scores, seconds, memory, versions.
        open_graph: Loads the graph of the training when it is first needed.
        keeps_graph: Whether :meth:`save` stores the graph, because it exists only in memory.
        folder: The folder of the seed, if the result was stored.
        run: The folder of all seeds, if the result was opened from it.
    """

    config: Config
    schema: Schema
    model: NodeClassifier
    facts: dict[str, Any]
    open_graph: Callable[[Result], OnGraph]
    keeps_graph: bool = False
    folder: Path | None = None
    run: Path | None = None
    kept_history: list[Record] | None = None

    @staticmethod
    def of(
        trained: Trained,
        graph: HeteroData,
        task: NodeTask,
        *,
        schema: Schema,
        record: dict[str, Any],
        keeps_graph: bool,
        folder: Path | None = None,
    ) -> Result:
        """Create the result of a training."""
        config, model = trained.config, trained.model.eval()
        facts = seed_facts(trained, record)
        task = task.with_outcome(facts.get("decision"), facts.get("largest"))
        own = OnGraph(config, task.target, graph, task, trained.inputs, model, trained.representations)
        schema = replace(schema, decision=facts.get("decision"), largest=facts.get("largest"))
        return Result(
            config, schema, model, facts, lambda _: own, keeps_graph, folder=folder, kept_history=trained.history
        )

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {value:.4f}" for name, value in self.test.items())
        return (
            f"Result({self.config.model.label} on {self.dataset}, seed {self.seed}, epoch {self.epoch}, test {scores})"
        )

    def _repr_html_(self) -> str:
        title = f"{self.config.model.label} on {self.dataset}, seed {self.seed}, epoch {self.epoch}"
        names = [name for name in self.test if name in self.val]
        rows = [(title_of(name), *(f"{scores[name]:.4f}" for scores in (self.val, self.test))) for name in names]
        return html_table(title, ("metric", "validation", "test"), rows)

    @property
    def chosen_by(self) -> str:
        """The metric that chose the epoch; the one of the task where it was the loss or the last epoch."""
        name = str(self.facts.get("selected_by", ""))
        if name in self.val:
            return name
        main = main_metric(self.val)
        return self.task.selection_metric if main is None else main.name

    @property
    def dataset(self) -> str:
        """The name of the graph."""
        return str(self.facts.get("dataset", self.config.dataset))

    @property
    def history(self) -> list[Record]:
        """One record per epoch."""
        if self.kept_history is None:
            assert self.folder is not None
            return read_history(self.folder)
        return self.kept_history

    @property
    def filters(self) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
        """The learned weights of relations of each layer, [K, C, T] in product order."""
        return [filters().detach().numpy() for filters in self.model.backbone.hop_filters()]

    @cached_property
    def own(self) -> OnGraph:
        """The model on its training graph, or on the graph that was passed to `load_run`."""
        return self.open_graph(self)

    @property
    def graph(self) -> HeteroData:
        return self.own.graph

    @property
    def task(self) -> NodeTask:
        if self.own.task is None:
            raise InputError(
                f'the graph has no labels and splits of "{self.schema.target}": predict works without them, but '
                "scores and reports need a graph with a task."
            )
        return self.own.task

    @property
    def inputs(self) -> Inputs:
        """The prepared relations and features."""
        return self.own.inputs

    @property
    def representations(self) -> Tensor:
        """All nodes of the target type before the classifier's head, [nodes, out_features]."""
        return self.own.representations

    @property
    def logits(self) -> Tensor:
        """Class scores of all nodes of the target type; use :meth:`logit_blocks` when there are many classes."""
        return self.own.logits

    def logit_blocks(self) -> Iterator[Tensor]:
        """The same in blocks of nodes."""
        return self.own.logit_blocks()

    @cached_property
    def data_checksum(self) -> str:
        """The sha256 of the content of the graph of the training."""
        stored = self.facts.get("data_checksum")
        return self.own.checksum if stored is None else str(stored)

    def on(self, graph: HeteroData | Data, task: NodeTask | None = None) -> OnGraph:
        """The same model on another graph of the schema; counts of nodes and edges may differ."""
        return on_graph(as_hetero(graph), task, config=self.config, schema=self.schema, model=self.model)

    def predict(
        self, graph: HeteroData | Data | None = None, nodes: Nodes | None = None, *, task: NodeTask | None = None
    ) -> pa.Table:
        """Ids, splits, predicted labels and probabilities of nodes of the target type, as a table.

        Args:
            graph: Another graph of the same schema; by default the graph of the training.
            nodes: The nodes to predict, as numbers within the type, a mask, or ids and names. By default all. Only
                what these nodes depend on is computed; graph, model and features are prepared in the first call.
            task: Fills the column of splits on another graph.
        """
        there = self.own if graph is None else self.on(graph, task)
        return table_on(there, self.schema, None if nodes is None else node_numbers(there, nodes))

    def predict_new(self, nodes: Sequence[Mapping[str, Any]]) -> pa.Table:
        """The same table for nodes that are not in the graph, as if they and their edges were added to it together.

        Args:
            nodes: For each one its `id`, its `features` (the columns of the table that the run was trained on, or a
                list of numbers) and its `edges`: for each relation a list of ids of stored nodes.
        """
        from fastgtn.runs.scoring.new.request import new_nodes

        return self.newcomers.table(new_nodes(nodes))

    @cached_property
    def newcomers(self) -> Newcomers:
        """Scores nodes that are not in the graph."""
        from fastgtn.runs.scoring.new.newcomers import Newcomers  # its packages are needed for new nodes alone

        return Newcomers(self)

    def embeddings(self, nodes: Nodes | None = None, *, graph: HeteroData | Data | None = None) -> Embeddings:
        """The representations of nodes of the target type before the classifier's head, with the ids of the nodes.

        Args:
            nodes, graph: As in :meth:`predict`.
        """
        there = self.own if graph is None else self.on(graph)
        return embeddings_of(there, None if nodes is None else node_numbers(there, nodes))

    def evaluate(
        self, split: str = "test", *, graph: HeteroData | Data | None = None, task: NodeTask | None = None
    ) -> dict[str, float]:
        """Scores of one split, as fractions.

        Args:
            split: "train", "val" or "test".
            graph: Another graph of the same schema; by default the graph of the training.
            task: Its labels and splits; by default they are read from `y` and the masks of the graph.
        """
        return score_split(self, split, graph, task)

    def majority(self, split: str = "test") -> float | None:
        """The micro-F1 on a split of always guessing the commonest training class; None for other kinds of tasks."""
        return majority_score(self.task, split) if "majority" in self.facts else None

    def metapaths(self, top: int = 20, *, by: str = "contribution", **options: Any) -> Ranking:
        """The learned meta-paths with their evidence, best first; `learned` of the ranking says what it is worth.

        Args:
            by: "contribution" to the predictions, or "share" of the learned graph, without evidence and faster.
            options: Further arguments of :func:`fastgtn.rank_metapaths`: nodes, between_targets, channel, layer.
        """
        if by not in ("contribution", "share"):
            raise InputError(f'meta-paths are ranked by "contribution" or "share", but got "{by}".')
        return ranking_of(self, top, by, options)

    @cached_property
    def screening(self) -> Screening | None:
        """Every meta-path tested on the training labels before training; made now where the run has none."""
        return screening_of(self)

    @property
    def learned(self) -> Learned:
        """Whether the ranking was learned: the entropy of the filters, and the control if one was trained."""
        return learned_of(self)

    def control(self) -> Control:
        """The same training with uniform filters, which shows what the choice of paths is worth; trained once."""
        return control_of(self)

    def explain(self, node: int | str, *, of_class: str | None = None, top: int = 10, instances: int = 3) -> Reasons:
        """Explain a prediction: the contributions of meta-paths, the node itself and the biases to a logit.

        Args:
            node: Its number within the target type, or its id or name as text.
            of_class: Explain the logit of this class; by default that of the predicted one.
            top: Number of meta-paths; those with the largest shares at this node are listed.
            instances: Number of concrete paths to show for each.
        """
        return reasons_of(self, node, of_class=of_class, top=top, instances=instances)

    def save(self, folder: str | Path) -> Path:
        """Write a run folder with this result as its only seed; `fastgtn.load_run` and every command read it.

        A graph that exists in memory only is stored in the folder, so that the run is complete.
        """
        return save_result(self, Path(folder))

    def report(self, path: str | Path, *, nodes: int = 200, force: bool = False) -> Path:
        """Write the report page. A run with several seeds is shown with all of them.

        Args:
            nodes: Number of nodes that can be looked up on the page.
            force: Overwrite the page if it exists.
        """
        from fastgtn.report import write_report  # the only import against the import arrows, see docs/architecture.md

        write_report([self], path, nodes=nodes, force=force)
        return Path(path)
