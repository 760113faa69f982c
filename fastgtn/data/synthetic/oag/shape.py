"""How many nodes and edges of each kind an OAG-shaped graph has."""

from dataclasses import dataclass

from fastgtn.data.catalog import PAPER
from fastgtn.errors import InputError, nearest

NAMES = ("oag-nn", "oag-ml", "oag-cs")
LEVELS = ("L0", "L1", "L2", "L3", "L4", "L5")
NODE_TYPES = ("paper", "author", *LEVELS, "venue", "institute")
SMALLEST = 300  # nodes

# Only the totals are published; how they divide is our choice. Shares of all nodes; authors are the rest:
NODE_SHARES = {"paper": 0.488, "L1": 0.0005, "L2": 0.012, "L3": 0.014, "L4": 0.008, "L5": 0.005, "institute": 0.008}
# and of the edges that remain after one PL0 edge per paper and one PV edge per paper that is not to be predicted;
# citations are the rest
EDGE_SHARES = {"PA": 0.18, "AI": 0.04, "PL1": 0.09, "PL2": 0.13, "PL3": 0.10, "PL4": 0.05, "PL5": 0.03}


@dataclass(frozen=True)
class OagShape:
    """Sizes of a graph; edges are counted once, although each is stored in both directions."""

    name: str
    nodes: dict[str, int]
    edges: dict[str, int]  # by forward relation, citations (PP) last
    train: int
    val: int
    test: int

    @property
    def num_targets(self) -> int:
        return self.train + self.val + self.test


def oag_shape(name: str, scale: float = 1.0) -> OagShape:
    """The sizes of a published graph, times `scale`.

    We assume that the published number of edges counts both directions, as in the smaller graphs of the same
    table, and all three numbers are even.
    """
    if name not in NAMES:
        raise InputError(f'no OAG graph "{name}"; {nearest(name, NAMES)}')
    if not 0 < scale < float("inf"):
        raise InputError(f"scale is {scale}; it multiplies the numbers of nodes and edges and must be above 0.")
    paper = PAPER[name]
    total = round(paper.nodes * scale)
    if total < SMALLEST:
        raise InputError(
            f"scale {scale} leaves {total} nodes of {name}, fewer than {SMALLEST}: "
            f"use at least {SMALLEST / paper.nodes:.2g}."
        )
    nodes = {t: max(4, round(share * total)) for t, share in NODE_SHARES.items()}
    nodes |= {"L0": max(4, min(19, round(2e-5 * total))), "venue": max(3, round(paper.classes * scale))}
    nodes["author"] = total - sum(nodes.values())
    train, val, test = (max(1, round(size * scale)) for size in (paper.train, paper.val, paper.test))
    edges = {"PV": nodes["paper"] - train - val - test, "PL0": nodes["paper"]}
    left = round(paper.edges * scale / 2) - sum(edges.values())
    for relation, share in EDGE_SHARES.items():
        other = nodes[relation[1:]] if relation[1:] in nodes else nodes["author"]
        edges[relation] = min(round(share * left), nodes["paper"] * other // 4)  # small graphs cannot have more
    edges["PP"] = round(paper.edges * scale / 2) - sum(edges.values())
    return OagShape(name, {t: nodes[t] for t in NODE_TYPES}, edges, train, val, test)
