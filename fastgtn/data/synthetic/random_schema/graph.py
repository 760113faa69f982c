"""Draw a schema and fill it: edges, topics at the ends of the planted paths, features and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.random import Generator
from torch_geometric.data import HeteroData

from fastgtn.data.splits import check_seed
from fastgtn.data.synthetic.random_schema.schema import Link, RandomSchema, draw_schema
from fastgtn.data.task import NodeTask
from fastgtn.errors import InputError

Array = np.ndarray
LABEL_NOISE = 0.05
BARE_END = 0.15  # how often the type at the end of a path has no features but few nodes
COUNT_FEATURES = 0.2  # how often its features are counts of words
SMALLEST_GRAPH = 20


def make_random_schema(
    seed: int = 0,
    *,
    paths: int = 1,
    types: int | None = None,
    relations: int | None = None,
    steps: int | None = None,
    targets: int | None = None,
    permuted: bool = False,
) -> tuple[HeteroData, NodeTask]:
    """Make a graph of a random schema whose labels follow planted meta-paths. The answer is in `graph.planted`.

    Edges are random. The label of a node is the most frequent topic at the ends of its path instances (of the sum over
    two paths), and 5 % of the labels are drawn at random. Only nodes at the end of a planted path reveal their topic;
    all other features are noise of various sizes. Weights, class sizes and the kinds of features are drawn as well.

    Args:
        seed: The same seed gives the same graph.
        paths: How many meta-paths decide the label together, 1 or 2.
        types: Number of node types; drawn from 2 to 8 where it is None.
        relations: Number of relations; drawn from 4 to 40.
        steps: Length of the planted paths; each drawn from 1 to 4.
        targets: Number of labelled nodes; drawn from 600 to 1500.
        permuted: Shuffle the labels, so that no path is informative.
    """
    check_seed(seed)
    if targets is not None and targets < SMALLEST_GRAPH:
        raise InputError(f"targets is {targets}; give at least {SMALLEST_GRAPH} labelled nodes.")
    rng = np.random.default_rng([seed, 15])
    schema = draw_schema(rng, types=types, relations=relations, steps=steps, paths=paths)
    classes, ends = int(rng.integers(2, 6)), {schema.end(walk) for walk in schema.walks}
    passed = {schema.links[link].far for walk in schema.walks for link in walk[:-1]}
    bare = {end for end in sorted(ends) if end != 0 and end not in passed and rng.random() < BARE_END}
    counts = [targets or int(rng.integers(600, 1500))]
    counts += [_num_nodes(rng, is_bare=t in bare) for t in range(1, len(schema.types))]
    is_weighted = bool(rng.random() < 0.3)
    matrices = [_edges(rng, link, counts, is_weighted=is_weighted) for link in schema.links]
    topics = {end: rng.integers(0, classes, counts[end]) for end in sorted(ends)}
    labels = _labels(rng, schema, matrices, topics, classes)
    graph = HeteroData()
    graph.name = f"random-schema-{seed}"
    for number, name in enumerate(schema.types):
        graph[name].num_nodes = counts[number]
        x = _features(
            rng, topics.get(number), counts[number], classes, is_bare=number in bare, is_passed=number in passed
        )
        if x is not None:
            graph[name].x = torch.from_numpy(x.astype(np.float32))
    for number, matrix in enumerate(matrices):
        store, entries = graph[schema.edge_type(number)], matrix.tocoo()
        store.edge_index = torch.from_numpy(np.stack([entries.col, entries.row]).astype(np.int64))
        if is_weighted:
            store.edge_weight = torch.from_numpy(entries.data.astype(np.float32))
    graph.planted = _answer(schema, seed, permuted=permuted)
    return graph, _task(rng, schema.types[0], rng.permutation(labels) if permuted else labels, classes)


def _num_nodes(rng: Generator, *, is_bare: bool) -> int:
    low, high = (15, 60) if is_bare else (150, 1500)
    return int(np.exp(rng.uniform(np.log(low), np.log(high))))


def _edges(rng: Generator, link: Link, counts: list[int], *, is_weighted: bool) -> Any:
    """One message matrix, near nodes as rows; some relations leave one row in twenty empty."""
    rows, cols = counts[link.near], counts[link.far]
    degrees = rng.poisson(link.degree - 1, rows) + 1
    if rng.random() < 0.3:
        degrees[rng.random(rows) < 0.05] = 0
    row = np.repeat(np.arange(rows), degrees)
    entries = np.unique(row * cols + rng.integers(0, cols, len(row)))
    values = rng.exponential(1, len(entries)) + 0.1 if is_weighted else np.ones(len(entries))
    return sp.csr_matrix((values, (entries // cols, entries % cols)), shape=(rows, cols))


def _labels(rng: Generator, schema: RandomSchema, matrices: list[Any], topics: dict[int, Array], classes: int) -> Array:
    """The topic with the largest weight at the ends of the planted paths; some graphs have classes of unequal size."""
    scores = np.zeros((matrices[schema.walks[0][0]].shape[0], classes))
    for walk in schema.walks:
        share = np.eye(classes)[topics[schema.end(walk)]]
        for link in reversed(walk):
            sums = np.asarray(matrices[link].sum(1))
            share = (matrices[link] @ share) / np.where(sums > 0, sums, 1.0)
        scores += (share - share.mean(0)) / share.std()
    largest = 3.0 if rng.random() < 1 / 3 else 1.0
    scores += 0.3 * np.log(np.linspace(1, largest, classes)) + 1e-6 * rng.random(scores.shape)
    labels = scores.argmax(1)
    wrong = rng.random(len(labels)) < LABEL_NOISE
    return np.where(wrong, rng.integers(0, classes, len(labels)), labels)


def _features(
    rng: Generator, topics: Array | None, count: int, classes: int, *, is_bare: bool, is_passed: bool
) -> Array | None:
    """Features that reveal the topic, as numbers or word counts, and noise or no features elsewhere.

    Nodes that a planted path passes through have features. Without any, a learned embedding would identify
    each of them, and a shorter path that ends there would say as much as the planted one.
    """
    if is_bare:
        return None
    width = int(rng.integers(4, 33))
    if topics is None:
        noise: Array = rng.normal(0, rng.choice([0.1, 1.0, 10.0]), (count, width))
        return noise if rng.random() < 0.7 or is_passed else None
    width = max(width, classes)
    if rng.random() < COUNT_FEATURES:
        rates = np.exp(rng.normal(0, 1, (classes, max(width, 16))))
        counts: Array = rng.poisson(rates[topics] * rng.exponential(2, (count, 1)))
        return counts
    directions = np.linalg.qr(rng.normal(size=(width, width)))[0][:classes]
    revealing: Array = rng.choice([1.0, 5.0]) * directions[topics] + rng.normal(0, 0.3, (count, width))
    return revealing


def _task(rng: Generator, target: str, labels: Array, classes: int) -> NodeTask:
    """Three tenths of the nodes to train, a fifth to validate, half to test."""
    nodes = rng.permutation(len(labels))
    parts = np.split(nodes, [3 * len(nodes) // 10, len(nodes) // 2])
    train, val, test = (torch.from_numpy(np.sort(part)) for part in parts)
    return NodeTask.from_labels(
        target, "single", torch.from_numpy(labels), train=train, val=val, test=test, num_classes=classes
    )


def _answer(schema: RandomSchema, seed: int, *, permuted: bool) -> dict[str, Any]:
    walks = [[list(schema.edge_type(link)) for link in walk] for walk in schema.walks]
    written = " and ".join(" ← ".join([schema.types[0], *(edge[0] for edge in walk)]) for walk in walks)
    return {"path": written, "paths": walks, "relations": walks[0], "permuted": permuted, "seed": seed}
