"""Rank the meta-paths of a model by their exact share in its output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.explain.plain_rule import plain_heaviest, plain_weights
from fastgtn.explain.verdict import Learned
from fastgtn.explain.walks import Model, own_share, walks_of
from fastgtn.nn import Features
from fastgtn.notebook import html_table, text_table
from fastgtn.relations import RelationStack
from fastgtn.relations.paths.metapath import MetaPath, PathNames
from fastgtn.relations.paths.search import FoundPath, Heaviest, PathSearch
from fastgtn.relations.paths.walks import Array, Walks

Rule = Literal["effective", "plain", "contribution"]
DEFAULT_EFFORT = 2000


@dataclass(frozen=True)
class RankedPath:
    """One meta-path and its weights.

    Args:
        name: The short name, such as "APCPA".
        weight: Its share of the learned graph, the mean over nodes and channels.
        plain_weight: The paper's product of filter weights, the mean over channels.
        channels: Its share in each channel.
        uniform_share: The share that uniform filters would give it: what the graph alone gives.
        contribution: Its mean part of the logits, without what is the same for all classes or all nodes.
        without: Change of the selection metric on validation nodes when the path is dropped.
        p_value: How often permuted labels make some path predict as well as this one.
    """

    rank: int
    name: str
    path: MetaPath
    weight: float
    plain_weight: float
    channels: tuple[float, ...]
    uniform_share: float | None = None
    contribution: float | None = None
    without: float | None = None
    p_value: float | None = None

    @property
    def lift(self) -> float | None:
        """The share divided by the share under uniform filters."""
        return self.weight / self.uniform_share if self.uniform_share else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "rank": self.rank,
            "path": self.name,
            "types": list(self.path.types),
            "relations": [list(relation) for relation in self.path.relations],
            "share": self.weight,
            "uniform_share": self.uniform_share,
            "lift": self.lift,
            "contribution": self.contribution,
            "without": self.without,
            "p_value": self.p_value,
            "plain_weight": self.plain_weight,
            "channels": list(self.channels),
        }


@dataclass(frozen=True)
class Ranking:
    """The heaviest meta-paths from one node type, best first: a sequence of paths.

    Args:
        empty_weight: Share of the empty path, which never leaves the node. All shares add up to one.
        own_share: The share that γ gives to the node's own features, beside the learned graph.
        num_nodes: Nodes whose shares were averaged.
        num_without: Chosen nodes at which no walk starts; they have no shares.
        unseen: Upper bound of the weight of an unlisted path if the search was stopped; zero if the ranking is exact.
        own_contribution: The contribution of the node's own features (γ).
        learned: Whether the ranking was learned from the labels; None if that was not examined.
    """

    target: str
    paths: tuple[RankedPath, ...]
    empty_weight: float
    empty_channels: tuple[float, ...]
    own_share: float
    num_nodes: int
    num_without: int
    between_targets: bool
    rule: Rule
    names: PathNames
    unseen: float = 0.0
    own_contribution: float | None = None
    learned: Learned | None = None

    def __repr__(self) -> str:
        return text_table(*self._table())

    def _repr_html_(self) -> str:
        return html_table(*self._table())

    def _table(self) -> tuple[str, list[str], list[list[str]]]:
        judged = [("contribution", "contribution", ".3f")] if self.rule == "contribution" else []
        columns = [*judged, ("share", "weight", ".3f"), ("lift", "lift", ".2f"), ("p-value", "p_value", ".2f")]
        kept = [c for c in columns if any(getattr(ranked, c[1]) is not None for ranked in self.paths)]
        values = [[(getattr(ranked, name), form) for _, name, form in kept] for ranked in self.paths]
        cells = [["–" if value is None else format(value, form) for value, form in row] for row in values]
        rows = [[ranked.name, *row] for ranked, row in zip(self.paths, cells, strict=True)]
        title = f"{len(self.paths)} meta-paths from {self.target}; {100 * self.empty_weight:.1f} % stays at the node"
        return title, ["meta-path", *(title for title, _, _ in kept)], rows

    def __iter__(self) -> Iterator[RankedPath]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, key: int | str) -> RankedPath: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[RankedPath, ...]: ...

    def __getitem__(self, key: int | str | slice) -> RankedPath | tuple[RankedPath, ...]:
        """A listed path by its position, starting at 0, or by its name; several by a slice."""
        if not isinstance(key, str):
            return self.paths[key]
        for ranked in self.paths:
            if ranked.name == key:
                return ranked
        raise KeyError(key)

    @property
    def num_certain(self) -> int:
        """The number of first paths that are proved to be the heaviest."""
        return sum(ranked.weight >= self.unseen for ranked in self.paths)

    @property
    def caveat(self) -> str | None:
        """A sentence about a search that was stopped early."""
        if self.num_certain == len(self.paths):
            return None
        proved = f"only the first {self.num_certain} are proved" if self.num_certain else "none is proved"
        return (
            f"Very many paths have nearly equal weights, so the search stopped early: {proved} to be the heaviest; "
            f"a path that is not listed has a weight of at most {100 * self.unseen:.2g} %."
        )

    @property
    def listed_weight(self) -> float:
        """The total weight of the listed paths and the empty path; one if no other path exists."""
        return self.empty_weight + sum(ranked.weight for ranked in self.paths)

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "between_targets": self.between_targets,
            "rule": self.rule,
            "metapaths": [ranked.to_dict() for ranked in self.paths],
            "empty_path": {"weight": self.empty_weight, "channels": list(self.empty_channels)},
            "own_share": self.own_share,
            "listed_weight": self.listed_weight,
            "nodes": self.num_nodes,
            "nodes_without_paths": self.num_without,
            "certain": self.num_certain,
            "unseen_weight": self.unseen,
            "own_contribution": self.own_contribution,
            "learned": None if self.learned is None else self.learned.to_dict(),
        }


def rank_metapaths(
    model: Model,
    stack: RelationStack,
    target: str,
    *,
    nodes: Tensor | Sequence[int] | None = None,
    top: int = 20,
    between_targets: bool = False,
    channel: int | None = None,
    layer: int = 0,
    rule: Rule = "effective",
    features: Features | Tensor | None = None,
    effort: int | None = DEFAULT_EFFORT,
    filters: Tensor | None = None,
    only: Sequence[MetaPath] | None = None,
) -> Ranking:
    r"""Rank the effective meta-paths of a model by their exact share, :math:`\frac{1}{n} \sum_i w_p (A_p 1)_i / v_i`.

    Steps that stay at their node are merged away: the identity, and relations that a row-normalised stack turns into
    self-loops. The shares of all paths at a node therefore add up to one, whatever their lengths.

    Args:
        stack: The stack that the model is run on.
        target: The node type from which paths are read.
        nodes: Average over these nodes only, numbered within the type.
        top: Number of paths. They are exactly the heaviest ones.
        between_targets: List only paths that end at the target type. Shares are still shares of all paths.
        channel: Rank one channel instead of the mean over all.
        layer: The layer of a FastGTN. A meta-path belongs to one layer, since a non-linearity separates layers.
        rule: Rank by the effective share, or by the paper's product of filter weights.
        features: Needed only with non-local operations, whose edges depend on the features.
        effort: Number of path prefixes to visit before the search stops; None removes the limit. Trained models need
            few. An untrained model, in which very many paths have nearly the same weight, may need millions.
            `num_certain` of the result is the number of proved ranks.
        filters: Weigh paths as if these were the filters of the layer, [K, C, T].
        only: Weigh these paths instead of looking for the heaviest.
    """
    if top < 1:
        raise InputError(f"top must be at least 1, but got {top}.")
    stack.nodes_of(target)  # raises an error with the nearest name for an unknown type
    walks = walks_of(model, stack, layer=layer, features=features, filters=filters)
    if channel is not None:
        walks = walks.channel(_checked_channel(channel, walks.shape[1]))
    kind = stack.node_types.index(target)
    totals = walks.totals()[kind]
    chosen = _chosen(nodes, len(totals), target)
    start, reached = _start(totals, chosen)
    ends = [
        np.full(n, float(not between_targets or other == target))
        for n, other in zip(stack.node_counts, stack.node_types, strict=True)
    ]
    search = PathSearch(walks, kind, start, ends)
    if only is not None:
        numbers = [walks.numbers(path) for path in only]
        found = _weighed(search, [tuple(steps) for steps in numbers if steps is not None])
    elif rule == "plain":
        plain = plain_heaviest(walks, kind, top, end=kind if between_targets else None)
        found = _weighed(search, [path.steps for path in plain])
    else:
        found = search.heaviest(top, None if effort is None else effort + top * walks.shape[0])
    names = PathNames(stack.node_types, walks.relations)
    return Ranking(
        target=target,
        paths=tuple(_ranked(rank, path, walks, kind, names) for rank, path in enumerate(found.paths, 1)),
        empty_weight=found.empty.weight,
        empty_channels=tuple((found.empty.weights * walks.shape[1]).tolist()),
        own_share=own_share(model, totals[chosen]),
        num_nodes=int(reached.sum()),
        num_without=int((~reached).sum()),
        unseen=found.unseen,
        between_targets=between_targets,
        rule=rule,
        names=names,
    )


def _weighed(search: PathSearch, words: Sequence[tuple[int, ...]]) -> Heaviest:
    """Given paths in the given order, with their weights; no search is needed."""
    return Heaviest([search.weigh(steps) for steps in words], search.weigh(()), unseen=0.0)


def _ranked(rank: int, found: FoundPath, walks: Walks, kind: int, names: PathNames) -> RankedPath:
    path = walks.path(kind, found.steps)
    return RankedPath(
        rank=rank,
        name=names.short(path),
        path=path,
        weight=found.weight,
        plain_weight=float(plain_weights(walks, found.steps).mean()),
        channels=tuple((found.weights * walks.shape[1]).tolist()),
    )


def _start(totals: Array, chosen: Array) -> tuple[Array, Array]:
    """The weight of each node in the mean, [n, C], and which of the chosen nodes have paths."""
    degree = totals[chosen]
    positive = degree > 0
    start = np.zeros_like(totals)
    counted = np.maximum(positive.sum(0), 1) * max(int(positive.any(0).sum()), 1)
    start[chosen] = positive / (np.where(positive, degree, 1.0) * counted)
    return start, positive.any(1)


def _chosen(nodes: Tensor | Sequence[int] | None, count: int, target: str) -> Array:
    if nodes is None:
        return np.arange(count)
    chosen = np.asarray(nodes)
    if not chosen.size:
        raise InputError(f"no nodes of type {target} are chosen: choose at least one.")
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or chosen.min() < 0 or chosen.max() >= count:
        raise InputError(f"nodes must be numbers of {target} nodes, 0 … {count - 1}, but got {nodes}.")
    unique: Array = np.unique(chosen)
    return unique


def _checked_channel(channel: int, num_channels: int) -> int:
    if not 0 <= channel < num_channels:
        raise InputError(f"channel must lie in 0 … {num_channels - 1}, but got {channel}.")
    return channel
