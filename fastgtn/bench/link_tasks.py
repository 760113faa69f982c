"""The graphs on which link predictors are compared in the docs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch_geometric.data import HeteroData

from fastgtn.data.catalog import data_folder
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.errors import InputError, nearest
from fastgtn.links import LinkTask
from fastgtn.links.folder import load_link_task
from fastgtn.links.negatives import NegativeKind
from fastgtn.links.settings import LinkSettings

Make = Callable[[int], LinkTask]  # the task of a seed
TITLES = ("LastFM", "LastFM-all", "PubMed", "MovieLens", "planted")


def available(
    data_dir: str | Path | None = None, *, only: Sequence[str] | None = None
) -> tuple[dict[str, Make], list[str]]:
    """The tasks whose files are here, by title, and a line for each of the others.

    Args:
        only: The titles that are wanted; by default all.
    """
    for title in only or ():
        if title not in TITLES:
            raise InputError(f'no graph "{title}" for links; {nearest(title, TITLES)}')
    folder = data_folder(data_dir)
    found: dict[str, Make] = {}
    skipped = []
    for title, file, make in (
        ("LastFM", folder / "links" / "hgb_lp_lastfm.npz", partial(_stored, data_dir, "lastfm", "two_hop", None)),
        ("LastFM-all", folder / "links" / "hgb_lp_lastfm.npz", partial(_stored, data_dir, "lastfm", "uniform", "UA")),
        ("PubMed", folder / "links" / "hne_pubmed.npz", partial(_stored, data_dir, "pubmed", "uniform", None)),
        ("MovieLens", folder / "tables" / "ml100k" / "ratings.csv", partial(movielens, folder / "tables" / "ml100k")),
        ("planted", None, planted),
    ):
        if only is not None and title not in only:
            continue
        if file is None or file.exists():
            found[title] = make
        else:
            skipped.append(f"{title} is left out: {file} does not exist.")
    return found, skipped


def planted(seed: int) -> LinkTask:
    """Users buy what the shops that they visit sell; other relations are drawn by chance."""
    return LinkTask.from_graph(make_planted_links(seed=seed), "buys", seed=seed)


def movielens(folder: Path, seed: int) -> LinkTask:
    """Ratings of at least four are likes; the latest tenth is the test."""
    rows = list(csv.DictReader((folder / "ratings.csv").open(encoding="utf-8")))
    likes = [row for row in rows if int(row["rating"]) >= 4]
    items = list(csv.DictReader((folder / "items.csv").open(encoding="utf-8")))
    users = list(csv.DictReader((folder / "users.csv").open(encoding="utf-8")))
    genres = list(items[0])[5:]
    jobs = sorted({user["occupation"] for user in users})
    graph = HeteroData()
    counts = {"user": len(users), "film": len(items), "genre": len(genres), "occupation": len(jobs)}
    for node_type, count in counts.items():
        graph[node_type].num_nodes = count
    store = graph["user", "likes", "film"]
    store.edge_index = torch.tensor([[int(r["user_id"]) - 1, int(r["item_id"]) - 1] for r in likes]).T
    store.time = torch.tensor([float(row["timestamp"]) for row in likes], dtype=torch.float64)
    is_of = [(n, g) for n, item in enumerate(items) for g, genre in enumerate(genres) if item[genre] == "1"]
    graph["film", "is", "genre"].edge_index = torch.tensor(is_of).T
    works = [(n, jobs.index(user["occupation"])) for n, user in enumerate(users)]
    graph["user", "works_as", "occupation"].edge_index = torch.tensor(works).T
    return LinkTask.from_graph(graph, "likes", by="time", seed=seed)


def _stored(
    data_dir: str | Path | None, name: str, negatives: NegativeKind, relation: str | None, seed: int
) -> LinkTask:
    """The test pairs of an archive, or a random split of a relation that is named."""
    settings = LinkSettings(name, relation=relation, negatives=negatives, seed=seed)
    return load_link_task(settings, data_dir=data_dir)
