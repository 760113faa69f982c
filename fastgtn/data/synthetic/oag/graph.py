"""Graphs with the shape of OAG-NN, OAG-ML and OAG-CS, in any size. The task is to rank venues.

Venues belong to topics. Papers have the topic of their venue, authors have a home venue, and fields and citations
follow topics. The features of a paper say little about its venue; its authors, fields and citations say more.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch_geometric.data import HeteroData

from fastgtn.data.splits import check_seed
from fastgtn.data.synthetic.oag.features import draw_features
from fastgtn.data.synthetic.oag.shape import LEVELS, NODE_TYPES, oag_shape
from fastgtn.data.synthetic.oag.world import World, draw_edges, draw_world
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
    """Generate a graph of the size of "oag-nn", "oag-ml" or "oag-cs". The task is to rank the venues of papers.

    The PV edges of all papers in the split are removed; the other papers keep theirs.

    Args:
        scale: Scale factor of the numbers of nodes, edges, venues and targets.
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
        "paper",
        "ranking",
        labels,
        train=train,
        val=val,
        test=test,
        class_names=[f"venue {v}" for v in range(num_venues)],
    )
