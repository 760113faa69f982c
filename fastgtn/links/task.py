"""The task of predicting links: which relation, which pairs, and which edges must be hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.links.edges import Array, find_relation, hidden_from, known_before, pair_keys
from fastgtn.links.metrics import LinkTally
from fastgtn.links.negatives import NegativeKind, Negatives
from fastgtn.relations import Relation

SplitBy = Literal["random", "time"]
SelectBy = Literal["roc_auc", "ndcg@20"]
Stage = Literal["val", "test", "use"]  # which links are known: those of training, of validation too, or all


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of nodes, numbered within their types, and whether each of them is a link (1) or not (0)."""

    source: Array
    target: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.source)

    @property
    def links(self) -> Array:
        """Those pairs that are links, [2, E]."""
        return np.stack([self.source, self.target])[:, self.labels > 0]

    @staticmethod
    def of(links: Array, others: Array) -> Pairs:
        """Links [2, E] followed by pairs that are not links [2, F]."""
        both = np.concatenate([links, others], axis=1)
        return Pairs(both[0], both[1], np.repeat([1.0, 0.0], [links.shape[1], others.shape[1]]))


@dataclass(frozen=True, eq=False)
class LinkTask:
    """Predict the edges of one relation. Make one with :meth:`from_graph` or :meth:`from_pairs`.

    Training code reads `train` and `val`; only the one function that scores the test split reads `test`.

    Args:
        graph: The graph without the validation and test links, in either direction.
        test_graph: The graph without the test links: when they are scored, the validation links are known.
        whole: The graph with all known links, on which recommendations are made.
        is_timed: Whether links were split by time, so that later edges of other relations are hidden as well.
        relation: The relation whose edges are predicted, named as in the graph.
        train: Links that the model learns from, [2, E]; they are edges of `graph`.
        val: Links and other pairs that choose the model.
        test: Links and other pairs that are scored once.
        negatives: How pairs that are not links are drawn.
        seed: Draws the splits and the negatives.
        select_by: The validation metric that chooses a model: "roc_auc" of the pairs, or "ndcg@20" of the ranking of
            all targets, which is what recommending needs.
    """

    graph: HeteroData
    test_graph: HeteroData
    relation: Relation
    train: Array
    val: Pairs
    test: Pairs
    negatives: NegativeKind = "uniform"
    seed: int = 0
    select_by: SelectBy = "roc_auc"
    whole: HeteroData | None = None
    is_timed: bool = False
    num_sources: int = field(init=False)
    num_targets: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_sources", int(self.graph[self.relation.source].num_nodes or 0))
        object.__setattr__(self, "num_targets", int(self.graph[self.relation.target].num_nodes or 0))
        object.__setattr__(self, "whole", self.test_graph if self.whole is None else self.whole)

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
        if by not in ("random", "time"):
            raise InputError(f'links are split by "random" or by "time", but got {by!r}.')
        if not (val > 0 and test > 0 and val + test < 1):
            raise InputError(f"val and test must be positive shares below 1 in sum, but got {val} and {test}.")
        found = find_relation(graph, relation)
        links = _distinct(graph, found)
        if links.shape[1] < 10:
            raise InputError(f'the relation "{found}" has {links.shape[1]} edges: too few to hide some of them.')
        order = _order(graph, found, links, by, seed)
        ends = np.round(np.array([1 - val - test, 1 - test]) * links.shape[1]).astype(int)
        train, val_links, test_links = (links[:, part] for part in np.split(order, ends))
        test_graph = hidden_from(graph, found, test_links)
        past = hidden_from(test_graph, found, val_links)
        if by == "time":  # what happened later is not known either, in any relation
            test_graph, past = (
                known_before(hidden, found, _times(graph, found, later).min(initial=np.inf))
                for hidden, later in ((test_graph, test_links), (past, val_links))
            )
        known = np.concatenate([train, val_links], axis=1)  # what is drawn for validation must not know the test
        return LinkTask(
            graph=past,
            test_graph=test_graph,
            relation=found,
            train=train,
            val=_with_negatives(test_graph, found, val_links, known, kind=negatives, seed=seed),
            test=_with_negatives(graph, found, test_links, links, kind=negatives, seed=seed + 1),
            negatives=negatives,
            seed=seed,
            select_by="roc_auc" if negatives == "two_hop" else "ndcg@20",
            whole=graph,
            is_timed=by == "time",
        )

    @staticmethod
    def from_pairs(
        graph: HeteroData,
        relation: str | tuple[str, str, str],
        *,
        test: Pairs,
        val: float = 0.1,
        negatives: NegativeKind = "uniform",
        seed: int = 0,
    ) -> LinkTask:
        """A graph that has training links only, and a given sample of test pairs; validation links are drawn."""
        found = find_relation(graph, relation)
        _check_pairs(graph, found, test)
        graph = hidden_from(graph, found, test.links)
        links = _distinct(graph, found)
        order = np.random.default_rng(seed).permutation(links.shape[1])
        cut = round(val * links.shape[1])
        if not 0 < cut < links.shape[1]:
            raise InputError(f"val = {val} leaves no links for training or validation among {links.shape[1]}.")
        val_links, train = links[:, np.sort(order[:cut])], links[:, np.sort(order[cut:])]
        return LinkTask(
            graph=hidden_from(graph, found, val_links),
            test_graph=graph,
            relation=found,
            train=train,
            val=_with_negatives(graph, found, val_links, links, kind=negatives, seed=seed),
            test=test,
            negatives=negatives,
            seed=seed,
        )

    @staticmethod
    def for_use(graph: HeteroData, relation: str | tuple[str, str, str]) -> LinkTask:
        """All links of a graph are known, and none is hidden: the graph on which a trained model recommends."""
        found, none = find_relation(graph, relation), np.zeros(0, np.int64)
        nothing = Pairs(none, none, none.astype(float))
        return LinkTask(graph, graph, found, _distinct(graph, found), nothing, nothing, whole=graph)

    def without_test(self) -> LinkTask:
        """The same task for a search of settings: it has no test pairs, and no graph that contains their links."""
        none = np.zeros(0, np.int64)
        return replace(self, test=Pairs(none, none, none.astype(float)), whole=self.test_graph)

    @property
    def is_within_one_type(self) -> bool:
        """Whether links have no direction, because both ends have the same type."""
        return self.relation.source == self.relation.target

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
        none = np.zeros(0, np.int64)
        return {"val": self.val, "test": self.test, "use": Pairs(none, none, none.astype(float))}[stage]

    def links_at(self, stage: Stage) -> Array:
        """The links [2, E] that are known at a stage."""
        if stage == "use" and self.whole is not self.test_graph:
            return _distinct(self.graph_at("use"), self.relation)
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
    def tally(self, logits: Tensor, labels: Tensor) -> LinkTally:
        """What the metrics of pairs need; tallies of batches and processes can be added."""
        return LinkTally.of_pairs(logits, labels[:, 0], labels[:, 1])


def task_of_archive(
    graph: HeteroData, arrays: Mapping[str, Array], *, negatives: NegativeKind = "uniform", seed: int = 0
) -> LinkTask:
    """The link task that an archive stores: `lp_relation` and a sample of test pairs with labels."""
    if "lp_relation" not in arrays:
        raise InputError("the archive stores no link task: name the relation to predict with --link.")
    relation = find_relation(graph, str(arrays["lp_relation"]))
    names = (
        ("lp_eval_src", "lp_eval_dst", "lp_eval_label") if "lp_eval_src" in arrays else ("lp_src", "lp_dst", "lp_label")
    )
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InputError(f"the archive names a relation to predict, but has no {', '.join(missing)}.")
    source, target, labels = (np.asarray(arrays[name]).astype(np.int64) for name in names)
    starts = _starts(graph)
    test = Pairs(source - starts[relation.source], target - starts[relation.target], labels.astype(float))
    if relation.source == relation.target:
        test = _once(test)
    return LinkTask.from_pairs(graph, relation, test=test, negatives=negatives, seed=seed)


def _once(pairs: Pairs) -> Pairs:
    """Pairs without direction: one that is stored in both directions is scored once."""
    ends = np.sort(np.stack([pairs.source, pairs.target]), axis=0)
    _, first = np.unique(pair_keys(ends, int(ends.max(initial=0)) + 1), return_index=True)
    kept = np.sort(first)
    return Pairs(ends[0, kept], ends[1, kept], pairs.labels[kept])


def _with_negatives(
    graph: HeteroData, relation: Relation, links: Array, known: Array, *, kind: NegativeKind, seed: int
) -> Pairs:
    return Pairs.of(links, Negatives.of(graph, relation, known, kind=kind).like(links, seed=seed))


def _starts(graph: HeteroData) -> dict[str, int]:
    """The number of the first node of each type when the nodes of all types are numbered together."""
    counts = [int(graph[t].num_nodes or 0) for t in graph.node_types]
    return dict(zip(graph.node_types, np.cumsum([0, *counts]).tolist(), strict=False))


def _distinct(graph: HeteroData, relation: Relation) -> Array:
    """The edges of a relation without repetitions; between nodes of one type each pair is counted once."""
    edges = graph[tuple(relation)].edge_index.numpy()
    if relation.source == relation.target:
        edges = np.sort(edges, axis=0)
        edges = edges[:, edges[0] != edges[1]]
    width = int(graph[relation.target].num_nodes or 0)
    _, first = np.unique(pair_keys(edges, width), return_index=True)
    return edges[:, np.sort(first)]


def _order(graph: HeteroData, relation: Relation, links: Array, by: SplitBy, seed: int) -> Array:
    if by == "random":
        return np.random.default_rng(seed).permutation(links.shape[1])
    return np.argsort(_times(graph, relation, links), kind="stable")


def _times(graph: HeteroData, relation: Relation, links: Array) -> Array:
    """When each link came to be."""
    store = graph[tuple(relation)]
    if "time" not in store:
        raise InputError(f'a split by time needs the time of every edge: set graph["{relation}"].time.')
    width = int(graph[relation.target].num_nodes or 0)
    every = pair_keys(store.edge_index.numpy(), width)
    order = np.argsort(every, kind="stable")
    place = order[np.searchsorted(every[order], pair_keys(links, width))]
    times: Array = store.time.numpy()[place]
    if np.isnan(times).any():
        raise InputError(f'a split by time needs the time of every edge, but some of graph["{relation}"].time are NaN.')
    return times


def _check_pairs(graph: HeteroData, relation: Relation, pairs: Pairs) -> None:
    for name, nodes, kind in (("source", pairs.source, relation.source), ("target", pairs.target, relation.target)):
        count = int(graph[kind].num_nodes or 0)
        if len(nodes) and (nodes.min() < 0 or nodes.max() >= count):
            raise InputError(
                f"the {name} nodes of the test pairs must lie in 0 … {count - 1}, the nodes of type "
                f'"{kind}", but they span {nodes.min()} … {nodes.max()}.'
            )
    if not ((pairs.labels == 0) | (pairs.labels == 1)).all() or len(np.unique(pairs.labels)) < 2:
        raise InputError("the labels of the test pairs must be 0 and 1, and both must occur.")
