"""The groups of nodes along a planted path, and the edges between them."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.random import Generator

from fastgtn.data.archive.arrays import Array
from fastgtn.errors import InputError

PARTNERS_PER_PAPER = {"author": 3, "venue": 1, "term": 3}
TARGET_SHARE = 1.5  # the labelled nodes, measured in shares of which every other group has one


@dataclass(frozen=True, eq=False)
class Group:
    """Nodes of one type at one position of the path; each has a hidden class."""

    node_type: str
    nodes: Array
    classes: Array


def part(path: list[str], counts: dict[str, int], classes: int, rng: Generator) -> tuple[list[Group], dict[str, Array]]:
    """Divide the nodes of each type into one group per position of the path; the rest are bystanders.

    Bystanders complete the papers that the path leaves without author, venue or term; they have no class.
    """
    groups: dict[int, Group] = {}
    bystanders: dict[str, Array] = {}
    for node_type, count in counts.items():
        places = [k for k, t in enumerate(path) if t == node_type]
        shares = [TARGET_SHARE if k == 0 else 1.0 for k in places]
        if needs_bystanders(path, node_type):
            shares.append(1.0)
        if count < 2 * classes * len(shares):
            raise InputError(
                f"{count} nodes of type {node_type} are too few for {classes} classes on the path: "
                f"at least {2 * classes * len(shares)} are needed."
            )
        cuts = np.round(np.cumsum(shares)[:-1] / sum(shares) * count).astype(int)
        pieces = np.split(rng.permutation(count), cuts)
        for k, nodes in zip(places, pieces, strict=False):
            groups[k] = Group(node_type, nodes, rng.permutation(np.arange(len(nodes)) % classes))
        if needs_bystanders(path, node_type):
            bystanders[node_type] = pieces[-1]
    return [groups[k] for k in range(len(path))], bystanders


def needs_bystanders(path: list[str], node_type: str) -> bool:
    """Whether some paper of the path has no neighbour of this type on the path."""
    return node_type != "paper" and any(not _beside(path, k, node_type) for k, t in enumerate(path) if t == "paper")


def link(
    groups: list[Group], bystanders: dict[str, Array], counts: dict[str, int], edge_noise: float, rng: Generator
) -> dict[str, Array]:
    """Edges [2, E] between papers and each other type.

    Neighbouring places of the path are joined class by class, except a share `edge_noise` of edges at random;
    papers and bystanders are joined at random.
    """
    pairs: dict[str, list[Array]] = {node_type: [] for node_type in PARTNERS_PER_PAPER}
    for one, other in pairwise(groups):
        papers, partners = (one, other) if one.node_type == "paper" else (other, one)
        degree = PARTNERS_PER_PAPER[partners.node_type]
        drawn = np.repeat(np.arange(len(papers.nodes)), degree)
        chosen = _same_class(papers.classes[drawn], partners.classes, edge_noise, rng)
        lonely = np.setdiff1d(np.arange(len(partners.nodes)), chosen)  # every node is reached by the path
        hosts = _same_class(partners.classes[lonely], papers.classes, edge_noise, rng)
        joined = np.stack([np.concatenate([drawn, hosts]), np.concatenate([chosen, lonely])])
        pairs[partners.node_type].append(np.stack([papers.nodes[joined[0]], partners.nodes[joined[1]]]))
    path = [group.node_type for group in groups]
    for node_type, nodes in bystanders.items():
        for k, group in enumerate(groups):
            if group.node_type == "paper" and not _beside(path, k, node_type):
                drawn = np.repeat(group.nodes, PARTNERS_PER_PAPER[node_type])
                pairs[node_type].append(np.stack([drawn, rng.choice(nodes, len(drawn))]))
    return {
        node_type: _distinct(np.concatenate(parts, axis=1), counts[node_type]) for node_type, parts in pairs.items()
    }


def random_edges(sources: int, targets: int, degree: int, rng: Generator, *, both_ways: bool) -> Array:
    """Random edges [2, E]: every source draws `degree` targets; with `both_ways`, each edge is also reversed."""
    row = np.repeat(np.arange(sources), degree)
    edges = np.stack([row, rng.integers(targets, size=len(row))])
    return _distinct(np.concatenate([edges, edges[::-1]], axis=1) if both_ways else edges, targets)


def _beside(path: list[str], k: int, node_type: str) -> bool:
    return node_type in path[max(k - 1, 0) : k + 2]


def _same_class(wanted: Array, classes: Array, edge_noise: float, rng: Generator) -> Array:
    """For each class in the list, a random member of that class, or of any class with probability `edge_noise`."""
    members = np.argsort(classes, kind="stable")
    sizes = np.bincount(classes)
    starts = np.cumsum(sizes) - sizes
    matching = members[starts[wanted] + (rng.random(len(wanted)) * sizes[wanted]).astype(np.int64)]
    anyone = rng.integers(len(classes), size=len(wanted))
    return np.where(rng.random(len(wanted)) < edge_noise, anyone, matching)


def _distinct(edges: Array, num_targets: int) -> Array:
    return np.stack(np.divmod(np.unique(edges[0] * num_targets + edges[1]), num_targets))
