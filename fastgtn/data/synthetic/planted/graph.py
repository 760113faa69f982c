"""Academic graphs whose labels depend on one chosen meta-path: the right answer is known.

The path runs through disjoint groups of nodes, and edges connect each group only with the next. The labelled nodes are
the first group. Features reveal the topic only in the last group and are uninformative everywhere else. So the mean
of features over the path shows the label, and no shorter path reaches an informative node.
"""

from itertools import pairwise

import numpy as np
import torch
from numpy.random import Generator
from torch_geometric.data import HeteroData

from fastgtn.data.archive.arrays import Array, memory_bytes
from fastgtn.data.splits import check_seed
from fastgtn.data.synthetic.planted.features import EdgeType, draw_features, message_matrix
from fastgtn.data.synthetic.planted.links import Group, link, part, random_edges
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError

LETTERS = {"A": "author", "P": "paper", "V": "venue", "T": "term"}
LONGEST_PATH = 4
# uninformative relations: (source, name, target, name of the reverse, or None for a symmetric relation)
MISLEADING = (
    ("author", "friend", "author", None),
    ("paper", "cites", "paper", "cited_by"),
    ("author", "visits", "venue", "visited_by"),
)
MISLEADING_DEGREE = 3
LARGEST_NOISE = 1e6  # topics are at distance √2; far more would overflow float32


def make_planted(
    path: str = "APVPA",
    *,
    authors: int = 900,
    papers: int = 900,
    venues: int = 60,
    terms: int = 140,
    classes: int = 3,
    features: int = 4,
    label_noise: float = 0.05,
    feature_noise: float = 0.2,
    distraction: float = 0.02,
    edge_noise: float = 0.05,
    misleading: int = 1,
    seed: int = 0,
) -> tuple[HeteroData, NodeTask]:
    """Make an academic graph with a planted meta-path. The answer is in `graph.planted`.

    The label of a node is the commonest topic among the last nodes of its path instances.

    Args:
        path: Read from the labelled type outwards: "APVPA" labels authors by the authors of the same venues.
        label_noise: Share of labels that are exchanged for another class.
        feature_noise: Standard deviation of the noise on informative features; topics are at distance √2.
        distraction: Standard deviation of the uninformative features.
        edge_noise: Share of edges on the path that ignore the topic.
        misleading: How many relations without any meaning to add, up to three.
    """
    types = parse_path(path)
    counts = {"author": authors, "paper": papers, "venue": venues, "term": terms}
    check_seed(seed)
    _check_numbers(classes, features, misleading, label_noise=label_noise, edge_noise=edge_noise)
    _check_deviations(feature_noise=feature_noise, distraction=distraction)
    _check_memory(sum(counts.values()), features, classes, len(types) - 1)
    rng = np.random.default_rng(seed)
    groups, bystanders = part(types, counts, classes, rng)
    edges = link(groups, bystanders, counts, edge_noise, rng)
    graph = _named_nodes(counts)
    for node_type, (paper, partner) in edges.items():
        _add_both_ways(graph, "paper", node_type, paper, partner)
    _add_misleading(graph, misleading, rng)
    relations = path_relations(path)
    graph.planted = {
        "path": path,
        "node_types": types,
        "relations": [list(edge_type) for edge_type in relations],
        "classes": classes,
        "seed": seed,
        "label_noise": label_noise,
        "feature_noise": feature_noise,
        "distraction": distraction,
        "edge_noise": edge_noise,
        "misleading": [name for _, name, _, _ in MISLEADING[:misleading]],
    }
    labels = _labels(graph, groups, relations, classes, rng)
    task = _task(types[0], _flipped(labels, classes, label_noise, rng), classes, rng)
    drawn = draw_features(
        graph,
        groups,
        labels,
        task.train.nodes.numpy(),
        relations,
        classes=classes,
        width=features,
        noise=feature_noise,
        distraction=distraction,
        rng=rng,
    )
    for node_type, x in drawn.items():
        graph[node_type].x = torch.from_numpy(x)
    return graph, task


def parse_path(path: str) -> list[str]:
    """Node types of a path such as "APVPA", each step between a paper and something else."""
    wrong = sorted(set(path) - LETTERS.keys())
    steps = list(pairwise(path))
    if wrong or not 1 <= len(steps) <= LONGEST_PATH or any(step.count("P") != 1 for step in steps):
        raise InputError(
            f'the path "{path}" cannot be planted: write 2 to {LONGEST_PATH + 1} letters of A (author), P (paper), '
            'V (venue), T (term), every second one P, such as "APVPA".'
        )
    return [LETTERS[letter] for letter in path]


def path_relations(path: str) -> list[EdgeType]:
    """The edge types along the path in the order of the product, each bringing messages one step nearer.

    The first step of "AP…" is the edge type (paper, PA, author), whose message matrix has authors as rows.
    """
    return [(LETTERS[far], far + near, LETTERS[near]) for near, far in pairwise(path)]


def _named_nodes(counts: dict[str, int]) -> HeteroData:
    """The nodes of the graph, without edges and features."""
    graph = HeteroData()
    graph.name, graph.shared_features = "planted", True
    for node_type, count in counts.items():
        graph[node_type].num_nodes = count
        graph[node_type].node_name = np.char.add(f"{node_type} ", np.arange(count).astype(str))
    return graph


def _add_misleading(graph: HeteroData, number: int, rng: np.random.Generator) -> None:
    """Add relations whose edges are drawn at random."""
    for source, name, target, reverse in MISLEADING[:number]:
        rows, columns = (int(graph[node_type].num_nodes or 0) for node_type in (source, target))
        pairs = random_edges(rows, columns, MISLEADING_DEGREE, rng, both_ways=reverse is None)
        graph[source, name, target].edge_index = _tensor(pairs)
        if reverse:
            graph[target, reverse, source].edge_index = _tensor(pairs[::-1])


def _check_numbers(classes: int, features: int, misleading: int, **shares: float) -> None:
    if not 2 <= classes <= features:
        raise InputError(
            f"{classes} classes with {features} features: give at least 2 classes, and at least as many features."
        )
    if not 0 <= misleading <= len(MISLEADING):
        raise InputError(f"misleading is {misleading}; there are 0 to {len(MISLEADING)} such relations.")
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise InputError(f"{name} is {share}; it is a share, at least 0 and below 1.")


def _check_deviations(**deviations: float) -> None:
    for name, deviation in deviations.items():
        if not 0 <= deviation <= LARGEST_NOISE:
            raise InputError(f"{name} is {deviation}; it is a standard deviation, from 0 to {LARGEST_NOISE:,.0f}.")


def _check_memory(nodes: int, width: int, classes: int, steps: int) -> None:
    """Refuse a graph that would not fit into memory, before numpy or the system fails."""
    # measured: some 3^steps / 2 paths have two means per class each; the topics come from a square matrix
    need = 8 * (4 * width**2 + nodes * (60 + 4 * width + classes * 3**steps))
    if need > memory_bytes():
        raise InputError(
            f"{nodes:,} nodes with {width:,} features and {classes:,} classes need about {need / 1e9:,.0f} GB of "
            f"memory, of {memory_bytes() / 1e9:,.0f} GB here: ask for fewer."
        )


def _labels(graph: HeteroData, groups: list[Group], relations: list[EdgeType], classes: int, rng: Generator) -> Array:
    """The commonest topic at the end of the path, for the first group; −1 for all other nodes of its type."""
    first, last = groups[0], groups[-1]
    share = np.zeros((graph[last.node_type].num_nodes, classes))
    share[last.nodes, last.classes] = 1
    for edge_type in reversed(relations):
        share = message_matrix(graph, edge_type) @ share
    ties = 1e-9 * rng.random(share.shape)  # broken by lot
    labels = np.full(len(share), -1)
    labels[first.nodes] = (share + ties)[first.nodes].argmax(1)
    return labels


def _flipped(labels: Array, classes: int, noise: float, rng: Generator) -> Array:
    """Exchange a share of the labels for another class."""
    other = (labels + rng.integers(1, classes, size=len(labels))) % classes
    return np.where((labels >= 0) & (rng.random(len(labels)) < noise), other, labels)


def _task(target: str, labels: Array, classes: int, rng: Generator) -> NodeTask:
    """Half of the labelled nodes to train, a fifth to validate, the rest to test."""
    nodes = rng.permutation(np.flatnonzero(labels >= 0))
    train, val, test = np.split(nodes, [len(nodes) // 2, 7 * len(nodes) // 10])
    return NodeTask.from_labels(
        target,
        "single",
        torch.from_numpy(labels),
        train=torch.from_numpy(np.sort(train)),
        val=torch.from_numpy(np.sort(val)),
        test=torch.from_numpy(np.sort(test)),
        class_names=[f"topic {c}" for c in range(classes)],
    )


def _add_both_ways(graph: HeteroData, source: str, target: str, row: Array, col: Array) -> None:
    """Relations named by initials: PA from paper to author, AP back."""
    there, back = (source[0] + target[0]).upper(), (target[0] + source[0]).upper()
    graph[source, there, target].edge_index = _tensor(np.stack([row, col]))
    graph[target, back, source].edge_index = _tensor(np.stack([col, row]))


def _tensor(edges: Array) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(edges))
