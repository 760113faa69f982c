"""Link models in run folders, as plain JSON files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch_geometric.data import HeteroData

from fastgtn.data import archive, catalog
from fastgtn.data.archive.arrays import ArrayFile
from fastgtn.errors import InputError
from fastgtn.links.edges import GraphShape, find_relation
from fastgtn.links.fit import LinkResult
from fastgtn.links.joined.features import feature_texts
from fastgtn.links.joined.model import LinkModel
from fastgtn.links.joined.screen import LinkScreening, ScreenedPath
from fastgtn.links.learned.options import JOINED
from fastgtn.links.learned.result import LearnedLinks
from fastgtn.links.learned.store import load_encoders, save_encoders
from fastgtn.links.settings import LinkSettings
from fastgtn.links.task import LinkTask, task_of_archive
from fastgtn.relations import Relation
from fastgtn.runs.files import read_json, write_json

FORMAT_VERSION = 3
FILE = "link.json"


def graph_of(settings: LinkSettings, *, data_dir: str | Path | None = None) -> HeteroData:
    """The graph of the settings."""
    return archive.read(located(settings, data_dir))[0]


def load_link_task(
    settings: LinkSettings, *, data_dir: str | Path | None = None, shape: GraphShape | None = None
) -> LinkTask:
    """The graph of the settings, the links to predict on it, and the metric that chooses.

    Args:
        shape: The types of the graph that a model was trained on, and their order; other types are refused.
    """
    return _loaded(settings, data_dir, shape).selecting(settings.select_by)


def _loaded(settings: LinkSettings, data_dir: str | Path | None, shape: GraphShape | None) -> LinkTask:
    path = located(settings, data_dir)
    stored = archive.read(path)[0]
    graph = stored if shape is None else shape.aligned(stored)
    stated = _stated(graph)
    relation = settings.relation or stated.get("relation")
    if relation is None:
        file = ArrayFile(path)
        arrays = {name: file[name] for name in file if name.startswith("lp_")}
        # their nodes are numbered over all types in the order of the archive
        return task_of_archive(stored, arrays, negatives=settings.negatives or "uniform", seed=settings.seed)
    found = find_relation(graph, relation)
    stated = stated if stated.get("relation") == str(found) else {}
    return LinkTask.from_graph(
        graph,
        found,
        by=settings.split or stated.get("split", "random"),
        negatives=settings.negatives or stated.get("negatives", "uniform"),
        seed=settings.seed,
    )


def _stated(graph: HeteroData) -> dict[str, Any]:
    """The link task that the tables of the graph named; empty if they named none."""
    stated = graph.meta.get("link_task") if "meta" in graph and isinstance(graph.meta, dict) else None
    return stated if isinstance(stated, dict) else {}


def save(result: LinkResult | LearnedLinks, settings: LinkSettings, folder: Path) -> None:
    """Write a trained model; the graph stays where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(result, LearnedLinks):
        save_encoders(result, folder)
    write_json(
        folder / FILE,
        {
            "format_version": FORMAT_VERSION,
            "settings": settings.to_json(),
            "graph": GraphShape.of(result.task.graph_at("use"), result.task.relation, result.task.reverses).to_json(),
            "model": result.model.to_json() if isinstance(result, LinkResult) else {"encoders": settings.model},
            "screening": {
                "paths": [vars(path) | {"steps": list(path.steps)} for path in result.screening.paths],
                "num_pairs": result.screening.num_pairs,
                "left_out": list(result.screening.left_out),
            },
            "val": result.val,
            "test": result.test,
            "popularity_val": result.popularity_val,
        },
    )


def load_links(
    folder: str | Path,
    *,
    seed: int | None = None,
    graph: str | HeteroData | None = None,
    data_dir: str | Path | None = None,
    hides: bool = True,
) -> LinkResult | LearnedLinks:
    """Open a trained link model with its graph.

    Args:
        seed: Which seed of a run; by default the first.
        graph: Where the graph is now, if it has moved; or another graph of the same schema, which may have new nodes.
        hides: Whether links are hidden as in training, which scoring needs. A graph that is only used hides none.
    """
    place = _seed_folder(Path(folder), seed)
    stored = read_json(place / FILE)
    if stored.get("format_version") != FORMAT_VERSION:
        version = stored.get("format_version")
        raise InputError(f"{place / FILE} has format version {version}; this version reads {FORMAT_VERSION}.")
    try:
        settings = LinkSettings(**stored["settings"])
        shape = GraphShape.from_json(stored["graph"])
        model = LinkModel.from_json(stored["model"]) if settings.model == JOINED else None
        rows = tuple(ScreenedPath(**path | {"steps": tuple(path["steps"])}) for path in stored["screening"]["paths"])
        screening = LinkScreening(rows, int(stored["screening"]["num_pairs"]), tuple(stored["screening"]["left_out"]))
        scores = [{str(k): float(v) for k, v in stored[name].items()} for name in ("val", "test", "popularity_val")]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{place / FILE} is damaged ({error!r}): train the model again.") from None
    settings = replace(settings, dataset=graph) if isinstance(graph, str) else settings
    if graph is None or (hides and isinstance(graph, str)):
        task = load_link_task(settings, data_dir=data_dir, shape=shape)
        task = replace(task, reverses=shape.reverses or task.reverses)
    else:
        given = graph_of(settings, data_dir=data_dir) if isinstance(graph, str) else graph
        task = LinkTask.for_use(shape.aligned(given), shape.relation, reverses=shape.reverses)
    if model is not None:
        return LinkResult(task, model, screening, *scores)
    return load_encoders(place, task, screening, scores)


def names_of(graph: HeteroData, node_type: str) -> list[str]:
    """The user's ids of the nodes of a type, or their numbers."""
    store = graph[node_type]
    return [str(i) for i in store.node_id] if "node_id" in store else [str(i) for i in range(int(store.num_nodes))]


def texts_of(graph: HeteroData, node_type: str) -> list[str]:
    """What people call the nodes of a type: their names if they have some, else their ids."""
    store = graph[node_type]
    return [str(name) for name in store.node_name] if "node_name" in store else names_of(graph, node_type)


def texts_by_type(graph: HeteroData, relation: Relation) -> dict[str, list[str]]:
    """What people call the nodes of every type, and the features of both ends of a relation."""
    texts = {node_type: texts_of(graph, node_type) for node_type in graph.node_types}
    return texts | feature_texts(graph, (relation.source, relation.target))


def located(settings: LinkSettings, data_dir: str | Path | None) -> Path:
    """The archive of the settings."""
    path = catalog.locate(settings.dataset, data_dir=data_dir)
    if path is None:
        raise InputError("the built-in graph has no links to predict: give an archive with --graph.")
    return path


def _seed_folder(folder: Path, seed: int | None) -> Path:
    if seed is None and (folder / FILE).is_file():
        return folder
    found = sorted((path.parent for path in folder.glob(f"seed-*/{FILE}")), key=lambda one: (len(one.name), one.name))
    wanted = [path for path in found if seed is None or path.name == f"seed-{seed}"]
    if not wanted:
        raise InputError(f"{folder} has no trained link model{'' if seed is None else f' of seed {seed}'}.")
    return wanted[0]
