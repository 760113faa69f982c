"""The graphs of the benchmarks: the real ones where the data folder has them, else of the same size."""

import torch
from torch_geometric.data import HeteroData

from fastgtn.data import load
from fastgtn.errors import InputError
from fastgtn.relations import RelationStack

# nodes per type, and edges per relation of both directions
_SIZES: dict[str, tuple[dict[str, int], list[tuple[str, str, int]]]] = {
    "dblp": (
        {"author": 4057, "paper": 14328, "conference": 20},
        [("paper", "author", 19645), ("paper", "conference", 14328)],
    ),
    "acm": ({"paper": 3025, "author": 5912, "subject": 57}, [("paper", "author", 9936), ("paper", "subject", 3025)]),
    "imdb": (
        {"movie": 4661, "director": 2270, "actor": 5841},
        [("movie", "director", 4661), ("movie", "actor", 13983)],
    ),
    "blogcatalog": ({"node": 5196}, [("node", "node", 171_743)]),
    "flickr": ({"node": 7575}, [("node", "node", 239_738)]),
}


def stack_of(name: str) -> tuple[RelationStack, str]:
    """The stack of a graph, and whether it is the real one or made up."""
    try:
        graph, _ = load(name)
        kind = "real"
    except InputError:
        graph, kind = _similar(name), "same size"
    return RelationStack.from_hetero(graph), kind


def _similar(name: str) -> HeteroData:
    counts, relations = _SIZES[name]
    g = torch.Generator().manual_seed(0)
    graph = HeteroData()
    for node_type, count in counts.items():
        graph[node_type].num_nodes = count
    for source, target, size in relations:
        # degrees are skewed: squaring a uniform number prefers the first nodes
        ends = [(torch.rand(size, generator=g) ** 2 * counts[t]).long() for t in (source, target)]
        graph[source, f"{source}_{target}", target].edge_index = torch.stack(ends)
        graph[target, f"{target}_{source}", source].edge_index = torch.stack(ends[::-1])
    return graph


def random_stack(num_nodes: int, num_edges: int, num_relations: int) -> RelationStack:
    """A large graph with skewed degrees, edges spread evenly over the relations."""
    g = torch.Generator().manual_seed(0)
    share = num_edges // num_relations
    edges = {}
    for number in range(num_relations):
        ends = torch.rand(2, share, generator=g)
        ends[0] = ends[0] ** 2
        edges["node", f"r{number}", "node"] = (ends * num_nodes).long()
    return RelationStack.from_edges(edges, {"node": num_nodes})
