"""Graphs of the shape of OAG-NN, OAG-ML and OAG-CS, whose files are not public: any size, and venues to be ranked.

Venues belong to topics; papers get their topic from their venue, authors are at home in a venue, fields and citations
follow topics. The features of a paper hardly tell its venue; what its authors, fields and citations lead to does.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch_geometric.data import HeteroData

from fastgtn.data.oag_features import draw_features
from fastgtn.data.oag_shape import LEVELS, NODE_TYPES, oag_shape
from fastgtn.data.oag_world import World, draw_edges, draw_world
from fastgtn.data.splits import check_seed
from fastgtn.data.task import NodeTask

# forward relation: (source, target, name of the reverse)
RELATIONS = {
    "PA": ("paper", "author", "AP"),
    **{f"P{level}": ("paper", level, f"{level}P") for level in LEVELS},
    "PV": ("paper", "venue", "VP"),
    "AI": ("author", "institute", "IA"),
    "PP": ("paper", "paper", "rev_PP"),
}
NUM_STEPS = 5  # calls of `progress`


def make_oag(
    name: str,
    *,
    scale: float = 1.0,
    seed: int = 0,
    half: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[HeteroData, NodeTask]:
    """Make a graph of the size of "oag-nn", "oag-ml" or "oag-cs"; the task ranks the venues of papers.

    The PV edges of all papers in the split are left out; the other papers keep theirs.

    Args:
        scale: Factor on the numbers of nodes, edges, venues and targets.
        half: Features in float16 instead of float32.
        progress: Called with the name of each step that begins.
    """
    shape = oag_shape(name, scale)
    check_seed(seed)
    rng = np.random.default_rng([seed, sum(shape.nodes.values())])
    progress("venues, topics and years")
    world = draw_world(shape, rng)
    progress("edges")
    edges = draw_edges(world, shape, rng)
    x = draw_features(world, edges, shape, np.float16 if half else np.float32, rng, progress)
    progress("graph")
    graph = HeteroData()
    graph.name, graph.shared_features = name, True
    graph.meta = {"generator": "oag", "scale": scale, "seed": seed}
    parts = torch.from_numpy(x).split(list(shape.nodes.values()))
    for node_type, part in zip(NODE_TYPES, parts, strict=True):
        graph[node_type].num_nodes, graph[node_type].x = len(part), part
    graph["paper"].year = torch.from_numpy(world.year)
    for relation, (source, target, reverse) in RELATIONS.items():
        edge_index = torch.from_numpy(np.stack(edges[relation]))
        graph[source, relation, target].edge_index = edge_index
        graph[target, reverse, source].edge_index = edge_index.flip(0)
    return graph, _task(world, shape.nodes["venue"])


def _task(world: World, num_venues: int) -> NodeTask:
    train, val, test = (torch.from_numpy(nodes) for nodes in (world.train, world.val, world.test))
    labels = torch.full((len(world.venue),), -1)
    for nodes in (train, val, test):
        labels[nodes] = torch.from_numpy(world.venue)[nodes]
    return NodeTask.from_labels(
        "paper", "ranking", labels, train=train, val=val, test=test,
        class_names=[f"venue {v}" for v in range(num_venues)],
    )  # fmt: skip
