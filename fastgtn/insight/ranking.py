"""Which meta-paths a model has learned, by their exact share in what the model computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.insight.plain_rule import plain_heaviest, plain_weights
from fastgtn.insight.unrolled import own_share, walks_of
from fastgtn.models import GTN, FastGTN, Features, NodeClassifier
from fastgtn.relations import RelationStack
from fastgtn.relations.metapaths import MetaPath, PathNames
from fastgtn.relations.path_search import FoundPath, PathSearch
from fastgtn.relations.walks import Array, Walks

Model = NodeClassifier | FastGTN | GTN
Rule = Literal["effective", "plain"]
DEFAULT_EFFORT = 2000


@dataclass(frozen=True)
class RankedPath:
    """One meta-path and what it weighs.

    Args:
        name: As people write it, "APCPA".
        weight: Its share of the learned graph, the mean over nodes and channels.
        plain_weight: The paper's product of filter weights, the mean over channels.
        channels: Its share in each channel.
    """

    rank: int
    name: str
    path: MetaPath
    weight: float
    plain_weight: float
    channels: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "rank": self.rank, "path": self.name, "types": list(self.path.types),
            "relations": [list(relation) for relation in self.path.relations],
            "weight": self.weight, "plain_weight": self.plain_weight, "channels": list(self.channels),
        }  # fmt: skip


@dataclass(frozen=True)
class Ranking:
    """The heaviest meta-paths from one node type, best first; iterate over it for the paths.

    Args:
        empty_weight: Share of the empty path: walks that never leave the node. With all other paths it makes one.
        own_share: What γ gives to the node's own features, apart from the learned graph.
        num_nodes: Nodes whose shares were averaged.
        num_without: Chosen nodes where no walk starts at all; they have no shares.
        unseen: The most that a path can weigh which the search broke off before; zero if the ranking is exact.
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

    def __iter__(self) -> Iterator[RankedPath]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, name: str) -> RankedPath:
        """A listed path by its name."""
        for ranked in self.paths:
            if ranked.name == name:
                return ranked
        raise KeyError(name)

    @property
    def num_certain(self) -> int:
        """How many of the listed paths, from the first on, are proved to be the heaviest."""
        return sum(ranked.weight >= self.unseen for ranked in self.paths)

    @property
    def caveat(self) -> str | None:
        """What to know where the search broke off, in a sentence."""
        if self.num_certain == len(self.paths):
            return None
        proved = f"only the first {self.num_certain} are proved" if self.num_certain else "none is proved"
        return (
            f"Very many paths weigh nearly the same, so the search broke off: {proved} to be the heaviest; a path that "
            f"is not listed weighs {100 * self.unseen:.2g} % at most."
        )

    @property
    def listed_weight(self) -> float:
        """What the listed paths and the empty one weigh together; one if they are all there are."""
        return self.empty_weight + sum(ranked.weight for ranked in self.paths)

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self.target, "between_targets": self.between_targets, "rule": self.rule,
            "metapaths": [ranked.to_dict() for ranked in self.paths],
            "empty_path": {"weight": self.empty_weight, "channels": list(self.empty_channels)},
            "own_share": self.own_share, "listed_weight": self.listed_weight,
            "nodes": self.num_nodes, "nodes_without_paths": self.num_without,
            "certain": self.num_certain, "unseen_weight": self.unseen,
        }  # fmt: skip


def rank_metapaths(
    model: Model, stack: RelationStack, target: str, *, nodes: Tensor | Sequence[int] | None = None, top: int = 20,
    between_targets: bool = False, channel: int | None = None, layer: int = 0, rule: Rule = "effective",
    features: Features | Tensor | None = None, effort: int | None = DEFAULT_EFFORT,
) -> Ranking:  # fmt: skip
    r"""Rank the effective meta-paths of a model by their exact share, :math:`\frac{1}{n} \sum_i w_p (A_p 1)_i / v_i`.

    Steps that stay at their node (the identity, and relations that a row-normalised stack turns into self-loops
    there) are merged away, so that the shares of all paths at a node add up to one, whatever their length.

    Args:
        stack: The stack that the model is run on.
        target: The node type whose nodes are looked at.
        nodes: Only these nodes, counted within the type: a class, a split, one node.
        top: How many paths; they are the heaviest exactly, no matter how many others there are.
        between_targets: Only paths that end at the target type. Shares stay shares of the whole.
        channel: One channel instead of the mean over all.
        layer: Which layer of a FastGTN; layers do not compose to meta-paths, there is a non-linearity in between.
        rule: What decides the order: the effective share, or the paper's product of filter weights.
        features: Needed with non-local operations only: their edges depend on features.
        effort: How many beginnings of paths are looked at before the search breaks off, None for all it takes. Trained
            models need few; an untrained one, with very many paths of nearly the same weight, may need millions.
            `num_certain` of the result says how far the ranking is proved.
    """
    if top < 1:
        raise InputError(f"top must be at least 1, but got {top}.")
    stack.nodes_of(target)  # an unknown type is answered with the nearest name
    walks = walks_of(model, stack, layer=layer, features=features)
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
    heaviest = search.heaviest(top, None if effort is None else effort + top * walks.shape[0])
    found, empty, unseen = heaviest.paths, heaviest.empty, heaviest.unseen
    if rule == "plain":
        plain = plain_heaviest(walks, kind, top, end=kind if between_targets else None)
        found, unseen = [search.weigh(path.steps) for path in plain], 0.0
    names = PathNames(stack.node_types, walks.relations)
    return Ranking(
        target=target,
        paths=tuple(_ranked(rank, path, walks, kind, names) for rank, path in enumerate(found, 1)),
        empty_weight=empty.weight,
        empty_channels=tuple((empty.weights * walks.shape[1]).tolist()),
        own_share=own_share(model, totals[chosen]),
        num_nodes=int(reached.sum()),
        num_without=int((~reached).sum()),
        unseen=unseen,
        between_targets=between_targets,
        rule=rule,
        names=names,
    )


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
    """How much each node of the type counts in the mean, [n, C]; and which of the chosen have paths at all."""
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
        raise InputError(f"no nodes of type {target} are chosen: shares need at least one.")
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or chosen.min() < 0 or chosen.max() >= count:
        raise InputError(f"nodes must be numbers of {target} nodes, 0 … {count - 1}, but got {nodes}.")
    unique: Array = np.unique(chosen)
    return unique


def _checked_channel(channel: int, num_channels: int) -> int:
    if not 0 <= channel < num_channels:
        raise InputError(f"channel must lie in 0 … {num_channels - 1}, but got {channel}.")
    return channel
