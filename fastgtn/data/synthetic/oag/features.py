"""Features of an OAG-shaped graph: misleading titles for papers, and their means for all other nodes."""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator

from fastgtn.data.archive.arrays import Array
from fastgtn.data.synthetic.oag.links import Pools, blended
from fastgtn.data.synthetic.oag.shape import NODE_TYPES, OagShape
from fastgtn.data.synthetic.oag.world import Pairs, World

WIDTH = 768
# Titles mislead: these shares of the papers resemble their own venue and some venue of their topic; the rest
# resemble any venue. A paper alone does not reveal which case it is; the mean of many papers does.
OWN_VENUE, OWN_TOPIC = 0.2, 0.3
LENGTH = 20.0  # length of the topic and venue vectors, in units of the noise per dimension
ROWS = 1 << 14  # made at once


def draw_features(
    world: World, edges: dict[str, Pairs], shape: OagShape, dtype: type, rng: Generator, step: Callable[[str], None]
) -> Array:
    """One matrix [N, 768], the rows of all types in the order of NODE_TYPES."""
    x: Array = np.zeros((sum(shape.nodes.values()), WIDTH), dtype)
    step("features of papers")
    papers = x[: shape.nodes["paper"]] if dtype == np.float32 else np.empty((shape.nodes["paper"], WIDTH), np.float32)
    sound, topic = _titles(world, shape.nodes["venue"], rng)
    topics = rng.standard_normal((world.num_topics, WIDTH), np.float32) * np.float32(LENGTH / WIDTH**0.5)
    venues = rng.standard_normal((shape.nodes["venue"], WIDTH), np.float32) * np.float32(LENGTH / WIDTH**0.5)
    for start in range(0, len(papers), ROWS):
        rows = slice(start, min(start + ROWS, len(papers)))
        noise = rng.standard_normal((rows.stop - start, WIDTH), np.float32)
        papers[rows] = noise + topics[topic[rows]] + venues[sound[rows]]
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


def _titles(world: World, num_venues: int, rng: Generator) -> tuple[Array, Array]:
    """The venue and the topic that the title of each paper resembles."""
    of_topic = Pools(world.venue_topic, np.ones(num_venues), world.num_topics)
    ways = [
        lambda at: world.venue[at],
        lambda at: of_topic.draw(world.topic[at], rng),
        lambda at: of_topic.draw_any(len(at), rng),
    ]
    sound = blended([OWN_VENUE, OWN_TOPIC], ways, len(world.venue), rng)
    return sound, np.where(sound == world.venue, world.topic, world.venue_topic[sound])


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
