"""Graphs whose links follow one joined meta-path, so that the right answer is known."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import HeteroData

from fastgtn.data.archive.arrays import Array
from fastgtn.errors import InputError

PATHS = ("USI", "USUI", "UTI")  # user–shop–item; user–shop–user–item; user–tag–item


def make_planted_links(
    path: str = "USI",
    *,
    users: int = 300,
    items: int = 200,
    degree: int = 6,
    noise: float = 0.2,
    misleading: int = 2,
    seed: int = 0,
) -> HeteroData:
    """Users buy items that a joined meta-path leads to; other relations are drawn by chance.

    Args:
        path: The joined path that purchases follow: "USI", "UTI" or "USUI".
        degree: Purchases of each user.
        noise: Share of the purchases that ignore the path.
        misleading: How many further relations between users and items are drawn by chance.
    """
    if path not in PATHS:
        raise InputError(f'links can be planted along {", ".join(PATHS)}, but got "{path}".')
    if not 0 <= noise <= 1:
        raise InputError(f"noise is a share between 0 and 1, but got {noise}.")
    rng = np.random.default_rng([seed, 0x11A7])
    counts = {"user": users, "item": items, "shop": max(4, users // 8), "tag": max(4, items // 8)}
    graph = HeteroData()
    for node_type, count in counts.items():
        graph[node_type].num_nodes = count
        graph[node_type].node_id = np.array([f"{node_type[0]}{number}" for number in range(count)])
    edges = {
        ("user", "visits", "shop"): _random(rng, users, counts["shop"], 3),
        ("shop", "sells", "item"): _random(rng, counts["shop"], items, 8),
        ("user", "likes", "tag"): _random(rng, users, counts["tag"], 3),
        ("tag", "marks", "item"): _random(rng, counts["tag"], items, 8),
    }
    for number in range(misleading):
        edges["user", f"viewed_{number}", "item"] = _random(rng, users, items, 5)
    for edge_type, pairs in edges.items():
        graph[edge_type].edge_index = torch.from_numpy(pairs)
    reach = _reach(path, edges, counts, rng)
    graph["user", "buys", "item"].edge_index = torch.from_numpy(_purchases(rng, reach, degree, noise))
    return graph


def make_new_items(
    *, users: int = 300, items: int = 400, kinds: int = 8, degree: int = 15, seed: int = 0
) -> HeteroData:
    """Items come out one after the other and are bought soon afterwards, by users who like their kind.

    Purchases have a `time`. The words that describe an item (`x`) are all that is known of it before it is bought.

    Args:
        kinds: How many kinds of items there are. Each user likes few of them.
        degree: Purchases that each user tries; there may be nothing new to buy.
    """
    rng = np.random.default_rng([seed, 0x2E3])
    likes, kind = rng.dirichlet(np.full(kinds, 0.3), users), rng.integers(kinds, size=items)
    released = np.sort(rng.random(items))
    bought: dict[tuple[int, int], float] = {}
    for user, moment in zip(np.repeat(np.arange(users), degree).tolist(), rng.random(users * degree), strict=True):
        new = np.flatnonzero((released < moment) & (released > moment - 0.25))
        if len(new):
            share = likes[user][kind[new]] ** 2 + 1e-3
            bought.setdefault((user, int(rng.choice(new, p=share / share.sum()))), float(moment))
    graph = HeteroData()
    for node_type, count in (("user", users), ("item", items)):
        graph[node_type].num_nodes = count
        graph[node_type].node_id = np.array([f"{node_type[0]}{number}" for number in range(count)])
    words = 8 * kinds
    often = np.where(np.arange(words) % kinds == kind[:, None], 0.4, 0.05)
    graph["item"].x = torch.from_numpy(rng.random((items, words)) < often).float()
    graph["user", "buys", "item"].edge_index = torch.tensor(list(bought)).T.contiguous()
    graph["user", "buys", "item"].time = torch.tensor(list(bought.values()), dtype=torch.float64)
    return graph


def _random(rng: np.random.Generator, rows: int, cols: int, degree: int) -> Array:
    """Each row is joined to `degree` distinct columns."""
    degree = min(degree, cols)
    chosen = np.stack([rng.choice(cols, degree, replace=False) for _ in range(rows)])
    return np.stack([np.repeat(np.arange(rows), degree), chosen.ravel()])


def _matrix(pairs: Array, rows: int, cols: int) -> Array:
    dense = np.zeros((rows, cols))
    dense[pairs[0], pairs[1]] = 1
    return dense


def _reach(
    path: str, edges: dict[tuple[str, str, str], Array], counts: dict[str, int], rng: np.random.Generator
) -> Array:
    """How many ways lead from each user to each item.

    For "USUI" each shop has items that its visitors buy, though no edge says so: only what other visitors bought tells.
    """
    middle = "tag" if path == "UTI" else "shop"
    near = edges["user", "likes" if middle == "tag" else "visits", middle]
    far = _random(rng, counts["shop"], counts["item"], 4)
    if path != "USUI":
        far = edges[middle, "marks" if middle == "tag" else "sells", "item"]
    ways: Array = _matrix(near, counts["user"], counts[middle]) @ _matrix(far, counts[middle], counts["item"])
    return ways


def _purchases(rng: np.random.Generator, reach: Array, degree: int, noise: float) -> Array:
    items = reach.shape[1]
    source, target = [], []
    for user, row in enumerate(reach):
        total = row.sum()
        follows = rng.random(degree) >= noise
        by_path = rng.choice(items, degree, p=row / total) if total else rng.integers(items, size=degree)
        chosen = np.unique(np.where(follows, by_path, rng.integers(items, size=degree)))
        source.append(np.full(len(chosen), user))
        target.append(chosen)
    return np.stack([np.concatenate(source), np.concatenate(target)])
