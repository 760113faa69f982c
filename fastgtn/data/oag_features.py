"""Features of an OAG-shaped graph: noisy topic vectors of papers, and means of them for everything else."""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator

from fastgtn.data.arrays import Array
from fastgtn.data.oag_shape import NODE_TYPES, OagShape
from fastgtn.data.oag_world import Pairs, World

WIDTH = 768
# lengths of the vectors that tell topic and venue, in units of the noise in one direction: a single paper shows its
# topic badly and its venue hardly, the mean of many papers shows both
TOPIC, VENUE = 3.0, 1.5
ROWS = 1 << 14  # made at once


def draw_features(
    world: World, edges: dict[str, Pairs], shape: OagShape, dtype: type, rng: Generator, step: Callable[[str], None]
) -> Array:
    """One matrix [N, 768], the rows of all types in the order of NODE_TYPES."""
    x: Array = np.zeros((sum(shape.nodes.values()), WIDTH), dtype)
    step("features of papers")
    papers = x[: shape.nodes["paper"]] if dtype == np.float32 else np.empty((shape.nodes["paper"], WIDTH), np.float32)
    topics = rng.standard_normal((world.num_topics, WIDTH), np.float32) * np.float32(TOPIC / WIDTH**0.5)
    venues = rng.standard_normal((shape.nodes["venue"], WIDTH), np.float32) * np.float32(VENUE / WIDTH**0.5)
    for start in range(0, len(papers), ROWS):
        rows = slice(start, min(start + ROWS, len(papers)))
        noise = rng.standard_normal((rows.stop - start, WIDTH), np.float32)
        papers[rows] = noise + topics[world.topic[rows]] + venues[world.venue[rows]]
        x[rows] = papers[rows]
    step("features of everything else")
    start = len(papers)
    for node_type in NODE_TYPES[1:]:
        means = _paper_shares(node_type, edges, shape)
        for first in range(0, shape.nodes[node_type], ROWS):
            part = means[first : first + ROWS] @ papers
            x[start + first : start + first + len(part)] = part
        start += shape.nodes[node_type]
    return x


def _paper_shares(node_type: str, edges: dict[str, Pairs], shape: OagShape) -> sp.csr_matrix:
    """The share of each paper in the features of each node, [nodes, papers]; rows sum to one, or to zero."""
    if node_type == "institute":  # the papers of its authors
        author, institute = edges["AI"]
        members = _means(institute, author, (shape.nodes["institute"], shape.nodes["author"]))
        return (members @ _paper_shares("author", edges, shape)).tocsr()
    names = {"author": "PA", "venue": "PV"}
    paper, other = edges[names.get(node_type, f"P{node_type}")]
    return _means(other, paper, (shape.nodes[node_type], shape.nodes["paper"]))


def _means(row: Array, col: Array, shape: tuple[int, int]) -> sp.csr_matrix:
    degree = np.bincount(row, minlength=shape[0])
    return sp.csr_matrix(((1 / degree[row]).astype(np.float32), (row, col)), shape=shape)
