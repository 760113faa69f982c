"""The task of predicting links: which relation, which pairs, and which edges must be hidden."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.links.edges import Array, find_relation, hidden_from, known_before, undirected, with_links
from fastgtn.links.metrics import PAIR_METRICS, RANKING_METRICS, LinkTally
from fastgtn.links.negatives import NegativeKind
from fastgtn.links.reverses import Reverses, find_reverses
from fastgtn.links.task.pairs import Pairs, with_negatives
from fastgtn.links.task.splits import SplitBy, distinct_links, drawn_apart, refuse_moments, split_links, times_of
from fastgtn.relations import Relation

Stage = Literal["val", "test", "use"]  # which links are known: those of training, of validation too, or all


@dataclass(frozen=True, eq=False)
class LinkTask:
    """Predict the edges of one relation. Make one with :meth:`from_graph` or :meth:`from_pairs`.

    Training code reads `train` and `val`; only the one function that scores the test split reads `test`.

    Args:
        graph: The graph without the validation and test links, in either direction.
        test_graph: The graph without the test links: when they are scored, the validation links are known.
        whole: The graph with all known links, on which recommendations are made.
        is_timed: Whether links were split by time, so that later edges of other relations are hidden as well.
        has_given_test: Whether the pairs of the test that are not links were given, and those of validation drawn.
        relation: The relation whose edges are predicted, named as in the graph.
        train: Links that the model learns from, [2, E]; they are edges of `graph`.
        val: Links and other pairs that choose the model.
        test: Links and other pairs that are scored once.
        negatives: How pairs that are not links are drawn.
        seed: Draws the splits and the negatives.
        reverses: Which relation is the reverse of which, by the edges of the whole graph; the same at every stage.
        select_by: The validation metric that chooses a model: by default "ndcg@20" of the ranking of all targets, which
            is what recommending needs, or "roc_auc" of the pairs if links are compared with nodes at two hops.
    """

    graph: HeteroData
    test_graph: HeteroData
    relation: Relation
    train: Array
    val: Pairs
    test: Pairs
    negatives: NegativeKind = "uniform"
    seed: int = 0
    select_by: str = "roc_auc"
    whole: HeteroData | None = None
    is_timed: bool = False
    has_given_test: bool = False
    reverses: Reverses = field(default_factory=dict)
    num_sources: int = field(init=False)
    num_targets: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_sources", int(self.graph[self.relation.source].num_nodes or 0))
        object.__setattr__(self, "num_targets", int(self.graph[self.relation.target].num_nodes or 0))
        object.__setattr__(self, "whole", self.test_graph if self.whole is None else self.whole)
        if not self.reverses:
            object.__setattr__(self, "reverses", find_reverses(self.graph_at("use")))

    @staticmethod
    def from_graph(
        graph: HeteroData,
        relation: str | tuple[str, str, str],
        *,
        val: float = 0.1,
        test: float = 0.1,
        by: SplitBy = "random",
        negatives: NegativeKind = "uniform",
        seed: int = 0,
    ) -> LinkTask:
        """Split the edges of a relation, hide validation and test, and draw one negative for every positive.

        Args:
            relation: The name of the relation, or (source, name, target).
            val: Share of the edges for validation.
            test: Share of the edges for the test.
            by: "random", or "time" for a relation with `time`: the latest edges are the test.
        """
        found = find_relation(graph, relation)
        refuse_moments(graph, by)
        graph = undirected(graph, found)
        links = distinct_links(graph, found)
        train, val_links, test_links = split_links(graph, found, links, val=val, test=test, by=by, seed=seed)
        test_graph = hidden_from(graph, found, test_links)
        past = hidden_from(test_graph, found, val_links)
        if by == "time":  # what happened later is not known either, in any relation
            test_graph, past = (
                known_before(hidden, found, times_of(graph, found, later).min(initial=np.inf))
                for hidden, later in ((test_graph, test_links), (past, val_links))
            )
        known = np.concatenate([train, val_links], axis=1)  # what is drawn for validation must not know the test
        return LinkTask(
            graph=past,
            test_graph=test_graph,
            relation=found,
            train=train,
            val=with_negatives(test_graph, found, val_links, known, kind=negatives, seed=seed),
            test=with_negatives(graph, found, test_links, links, kind=negatives, seed=seed + 1),
            negatives=negatives,
            seed=seed,
            select_by=_select_by(negatives),
            whole=graph,
            is_timed=by == "time",
        )

    @staticmethod
    def from_pairs(
        graph: HeteroData,
        relation: str | tuple[str, str, str],
        *,
        test: Pairs,
        val: float | Pairs = 0.1,
        negatives: NegativeKind = "uniform",
        seed: int = 0,
    ) -> LinkTask:
        """A graph that has training links only, and given test pairs; negatives that are not given are drawn.

        Args:
            val: Validation pairs, whose links need not be in the graph, or the share of its links that is drawn.
        """
        found = find_relation(graph, relation)
        refuse_moments(graph, None)
        for pairs in (test, val) if isinstance(val, Pairs) else (test,):
            pairs.check(graph, found)
        graph = hidden_from(undirected(graph, found), found, test.links)
        if isinstance(val, Pairs):
            graph = undirected(with_links(graph, found, val.links), found)
            val_links, train = val.links, distinct_links(hidden_from(graph, found, val.links), found)
        else:
            val_links, train = drawn_apart(distinct_links(graph, found), val, seed=seed)
            val = Pairs.of(val_links, val_links[:, :0])
        links = np.concatenate([train, val_links], axis=1)  # what is drawn for validation must not know the test
        drawn = partial(with_negatives, graph, found, kind=negatives)
        known = np.concatenate([links, test.links], axis=1)
        return LinkTask(
            graph=hidden_from(graph, found, val_links),
            test_graph=graph,
            relation=found,
            train=train,
            val=val if val.has_both else drawn(val_links, links, seed=seed),
            test=test if test.has_both else drawn(test.links, known, seed=seed + 1),
            negatives=negatives,
            seed=seed,
            select_by=_select_by(negatives),
            has_given_test=test.has_both and not val.has_both,
        )

    @staticmethod
    def for_use(
        graph: HeteroData, relation: str | tuple[str, str, str], *, reverses: Reverses | None = None
    ) -> LinkTask:
        """All links of a graph are known, and none is hidden: the graph on which a trained model recommends.

        Args:
            reverses: Those of the graph that the model was trained on.
        """
        found, nothing = find_relation(graph, relation), Pairs.none()
        graph = undirected(graph, found)
        known = distinct_links(graph, found)
        return LinkTask(graph, graph, found, known, nothing, nothing, whole=graph, reverses=reverses or {})

    def without_test(self) -> LinkTask:
        """The same task for a search of settings: it has no test pairs, and no graph that contains their links."""
        return replace(self, test=Pairs.none(), whole=self.test_graph)

    @property
    def is_within_one_type(self) -> bool:
        """Whether links have no direction, because both ends have the same type."""
        return self.relation.source == self.relation.target

    @property
    def cold_share(self) -> float:
        """The share of validation links with an end that has no training link."""
        source, target = (np.unique(side) for side in self.train)
        if self.is_within_one_type:
            source = target = np.union1d(source, target)
        links = self.val.links
        is_known = np.isin(links[0], source) & np.isin(links[1], target)
        return float(1 - is_known.mean()) if len(is_known) else 0.0

    @property
    def has_features(self) -> bool:
        """Whether the nodes of one end have features."""
        return any("x" in self.graph[kind] for kind in (self.relation.source, self.relation.target))

    def selecting(self, metric: str) -> LinkTask:
        """The same task, with another metric that chooses; "auto", "loss" and "last" leave it as it is."""
        return replace(self, select_by=metric) if metric in (*PAIR_METRICS, *RANKING_METRICS) else self

    @property
    def chooses_by_ranking(self) -> bool:
        """Whether models are chosen by how well they rank all targets of a source."""
        return self.select_by in RANKING_METRICS

    @property
    def selection_metric(self) -> str:
        """The validation metric that chooses."""
        return self.select_by

    def graph_at(self, stage: Stage) -> HeteroData:
        """The graph that predictions of a stage may read."""
        assert self.whole is not None
        return {"val": self.graph, "test": self.test_graph, "use": self.whole}[stage]

    def pairs_at(self, stage: Stage) -> Pairs:
        """The pairs that are scored at a stage; nothing is hidden in use."""
        return {"val": self.val, "test": self.test, "use": Pairs.none()}[stage]

    def links_at(self, stage: Stage) -> Array:
        """The links [2, E] that are known at a stage."""
        if stage == "use" and self.whole is not self.test_graph:
            return distinct_links(self.graph_at("use"), self.relation)
        return self.train if stage == "val" else np.concatenate([self.train, self.val.links], axis=1)

    def known_rows(self, stage: Stage) -> Any:
        """The known links as a sparse matrix [sources, targets]: what is not recommended again.

        Between nodes of one type, links count in both directions, and no node is recommended to itself.
        """
        source, target = self.links_at(stage)
        shape = self.num_sources, self.num_targets
        known = sp.csr_matrix((np.ones(len(source), bool), (source, target)), shape=shape)
        return (known + known.T + sp.identity(shape[0], bool)).tocsr() if self.is_within_one_type else known

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean cross entropy of links and other pairs; labels [B, 2] are whether each is a link, and its source."""
        return F.binary_cross_entropy_with_logits(logits, labels[:, 0].to(logits.dtype))

    def loss_weight(self, labels: Tensor) -> float:
        """Every pair counts the same."""
        return float(len(labels))

    @torch.no_grad()
    def tally(self, logits: Tensor, labels: Tensor, *, each_epoch: str | None = None) -> LinkTally:  # noqa: ARG002
        """What the metrics of pairs need; tallies of batches and processes can be added."""
        return LinkTally.of_pairs(logits, labels[:, 0], labels[:, 1])


def _select_by(negatives: NegativeKind) -> str:
    """How well all targets are ranked; where a link is compared only with near pairs, how well these are told apart."""
    return "roc_auc" if negatives == "two_hop" else "ndcg@20"
