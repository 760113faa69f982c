"""Tables about meta-paths and filters: lengths of walks, heat maps, weights seed by seed, the schema."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from torch_geometric.data import HeteroData

from fastgtn.explain.ranking import Ranking
from fastgtn.explain.stability import Stability
from fastgtn.nn import NodeClassifier
from fastgtn.relations import ANY, Relation
from fastgtn.report.names import shortened
from fastgtn.report.tables import FilterMap, HopShare, SchemaTable

MOST_MAPS, MOST_RELATIONS = 24, 40


def hop_shares(ranking: Ranking) -> tuple[HopShare, ...]:
    """The reach of the learned graph: the shares of walks by the number of steps that really move."""
    weights: dict[int, float] = defaultdict(float, {0: ranking.empty_weight})
    for ranked in ranking:
        weights[len(ranked.path)] += ranked.weight
    shares = [HopShare(hops, weights[hops]) for hops in range(max(weights) + 1)]
    unlisted = 1 - ranking.listed_weight
    return (*shares, HopShare(None, unlisted)) if unlisted > 1e-6 else tuple(shares)


def filter_maps(model: NodeClassifier) -> tuple[FilterMap, ...]:
    """The filters of each layer and channel; of very many relations the heaviest."""
    maps = []
    for layer, filters in enumerate(model.backbone.hop_filters()):
        alpha = filters().detach()  # [K, C, T]
        kept = sorted(alpha.sum((0, 1)).argsort(descending=True, stable=True)[:MOST_RELATIONS].tolist())
        names = tuple(shortened(_relation_name(filters.relations[t])) for t in kept)
        for channel in range(alpha.size(1)):
            weights = alpha[:, channel, kept].T.tolist()
            maps.append(FilterMap(layer, channel, names, tuple(tuple(row) for row in weights)))
    return tuple(maps[:MOST_MAPS])


def seed_weights(stable: Stability | None, rankings: Sequence[Ranking]) -> dict[str, tuple[float, ...]]:
    """The weight of each compared path in each seed; zero if a seed does not list it."""
    by_name = [{ranked.name: ranked.weight for ranked in ranking} for ranking in rankings]
    paths = stable.paths if stable is not None else ()
    return {path.name: tuple(weights.get(path.name, 0.0) for weights in by_name) for path in paths}


def schema_table(graph: HeteroData, relations: Sequence[Relation]) -> SchemaTable:
    """Node types and relations of the model. An added reverse has the edges of its stored relation."""
    stored = {tuple(kind): int(graph[kind].num_edges) for kind in graph.edge_types}
    edges = {}
    for source, name, target in relations:
        if ANY not in (source, target):
            forward = (target, name.removeprefix("rev_"), source)
            edges[source, name, target] = stored.get((source, name, target), stored.get(forward, 0))
    return SchemaTable({t: int(graph[t].num_nodes) for t in graph.node_types}, edges)


def _relation_name(relation: tuple[str, str, str]) -> str:
    source, name, target = relation
    if ANY in (source, target):
        return name.replace("_", "-")
    return f"{target} ← {source}" + ("" if name in (f"{source[:1]}{target[:1]}".upper(), "to") else f" ({name})")
