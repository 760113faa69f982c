"""Which links are for training, which for validation, and which for the test."""

from typing import Literal

import numpy as np
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.links.edges import Array, pair_keys
from fastgtn.relations import Relation

SplitBy = Literal["random", "time"]


def split_links(
    graph: HeteroData, relation: Relation, links: Array, *, val: float, test: float, by: SplitBy, seed: int
) -> tuple[Array, Array, Array]:
    """Links of training, validation and test: in random order, or the latest last."""
    if by not in ("random", "time"):
        raise InputError(f'links are split by "random" or by "time", but got {by!r}.')
    if not (val > 0 and test > 0 and val + test < 1):
        raise InputError(f"val and test must be positive shares below 1 in sum, but got {val} and {test}.")
    if links.shape[1] < 10:
        raise InputError(f'the relation "{relation}" has {links.shape[1]} edges: too few to hide some of them.')
    if by == "random":
        order = np.random.default_rng(seed).permutation(links.shape[1])
    else:
        order = np.argsort(times_of(graph, relation, links), kind="stable")
    ends = np.round(np.array([1 - val - test, 1 - test]) * links.shape[1]).astype(int)
    first, second, third = (links[:, part] for part in np.split(order, ends))
    return first, second, third


def drawn_apart(links: Array, share: float, *, seed: int) -> tuple[Array, Array]:
    """A share of the links at random for validation, and the others, both in their order."""
    count = links.shape[1]
    order, cut = np.random.default_rng(seed).permutation(count), round(share * count)
    if not 0 < cut < count:
        raise InputError(f"val = {share} leaves no links for training or validation among {count}.")
    return links[:, np.sort(order[:cut])], links[:, np.sort(order[cut:])]


def distinct_links(graph: HeteroData, relation: Relation) -> Array:
    """The edges of a relation without repetitions; between nodes of one type each pair is counted once."""
    edges = graph[tuple(relation)].edge_index.numpy()
    if relation.source == relation.target:
        edges = np.sort(edges, axis=0)
        edges = edges[:, edges[0] != edges[1]]
    width = int(graph[relation.target].num_nodes or 0)
    _, first = np.unique(pair_keys(edges, width), return_index=True)
    return edges[:, np.sort(first)]


def refuse_moments(graph: HeteroData, by: SplitBy | None) -> None:
    """Refuse moments of single nodes, which would not be respected, unless the split sets one moment for all."""
    named = ", ".join(f'"{kind}"' for kind in graph.node_types if "as_of" in graph[kind])
    if named and by != "time":
        raise InputError(
            f"nodes of type {named} have as_of, but links have no moments of single nodes: split the links by time "
            '(--split time, or by="time"), which hides what is later than the first hidden link, or delete as_of.'
        )


def times_of(graph: HeteroData, relation: Relation, links: Array) -> Array:
    """The time of each link: that of its first edge, in either direction if both ends have the same type."""
    store = graph[tuple(relation)]
    if "time" not in store:
        raise InputError(f'a split by time needs the time of every edge: set graph["{relation}"].time.')
    width = int(graph[relation.target].num_nodes or 0)
    every, wanted = (_pair_keys(relation, edges, width) for edges in (store.edge_index.numpy(), links))
    order = np.lexsort((store.time.numpy(), every))
    place = order[np.searchsorted(every[order], wanted)]
    times: Array = store.time.numpy()[place]
    if np.isnan(times).any():
        raise InputError(f'a split by time needs the time of every edge, but some of graph["{relation}"].time are NaN.')
    return times


def _pair_keys(relation: Relation, edges: Array, width: int) -> Array:
    """One number per pair; between nodes of one type, the same for both directions."""
    return pair_keys(np.sort(edges, axis=0) if relation.source == relation.target else edges, width)
