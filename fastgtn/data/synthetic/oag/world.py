"""The hidden variables of an OAG-shaped graph (topics, venues, years) and the edges that follow from them."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from fastgtn.data.archive.arrays import Array
from fastgtn.data.synthetic.oag.links import Pools, blended, distinct_pairs, heavy_tail
from fastgtn.data.synthetic.oag.shape import LEVELS, OagShape
from fastgtn.errors import InputError

VENUES_PER_TOPIC = 8
OLDEST = 1980
Pairs = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class World:
    """The hidden variables of every paper, author and venue."""

    num_topics: int
    venue_topic: Array
    venue: Array  # of each paper, including those whose PV edge is hidden
    topic: Array  # of each paper
    year: Array  # of each paper
    train: Array  # papers to be predicted, sorted
    val: Array
    test: Array
    home: Array  # the venue where each author publishes most

    @property
    def known(self) -> Array:
        """Papers whose venue is not to be predicted."""
        targets = np.concatenate([self.train, self.val, self.test])
        return np.setdiff1d(np.arange(len(self.venue)), targets)


def draw_world(shape: OagShape, rng: Generator) -> World:
    """Topics have some venues, venues have papers and authors; sizes are heavy-tailed."""
    papers, venues = shape.nodes["paper"], shape.nodes["venue"]
    num_topics = max(2, venues // VENUES_PER_TOPIC)
    venue_topic = rng.permutation(np.arange(venues) % num_topics)
    popularity = rng.permutation((np.arange(venues) + 3.0) ** -0.9)
    popularity /= popularity.sum()
    order = rng.permutation(papers)
    train, val, test, rest = np.split(order, np.cumsum([shape.train, shape.val, shape.test]))
    venue = rng.choice(venues, papers, p=popularity)
    for split in (train, rest):  # every venue has a paper with a visible PV edge and a training paper
        sure = min(venues, len(split))
        venue[split[:sure]] = np.arange(sure)
    second = rng.integers(num_topics, size=venues)  # most venues have a second topic
    kind = rng.random(papers)
    topic = np.where(kind < 0.8, venue_topic[venue], np.where(kind < 0.95, second[venue], 0))
    topic = np.where(kind < 0.95, topic, rng.integers(num_topics, size=papers))
    return World(
        num_topics,
        venue_topic,
        venue,
        topic,
        _years(shape, train, val, test, rest, rng),
        np.sort(train),
        np.sort(val),
        np.sort(test),
        rng.choice(venues, shape.nodes["author"], p=popularity),
    )


def _years(shape: OagShape, train: Array, val: Array, test: Array, rest: Array, rng: Generator) -> Array:
    """Training papers before 2015, validation 2015 and 2016, test later; all others at any time."""
    shares = np.array([shape.train, shape.val, shape.test]) / shape.num_targets
    era = np.empty(shape.nodes["paper"], np.int64)
    era[train], era[val], era[test] = 0, 1, 2
    era[rest] = rng.choice(3, len(rest), p=shares)
    past = np.maximum(2015 - rng.geometric(0.12, len(era)), OLDEST)
    return np.choose(era, [past, rng.integers(2015, 2017, len(era)), rng.integers(2017, 2020, len(era))])


def draw_edges(world: World, shape: OagShape, rng: Generator) -> dict[str, Pairs]:
    """The forward relations, pairs sorted and distinct; citations fill up to the total number of edges."""
    edges = {"PA": _authors(world, shape, rng), "AI": _institutes(world, shape, rng)}
    for level in LEVELS:
        edges[f"P{level}"] = _fields(world, shape, level, rng)
    edges["PV"] = (world.known, world.venue[world.known])
    left = sum(shape.edges.values()) - sum(len(row) for row, _ in edges.values())
    if left < 0:
        raise InputError(f"{shape.name} at this scale has too few edges for its authors: use a larger scale.")
    edges["PP"] = _citations(world, shape, left, rng)
    return edges


def _authors(world: World, shape: OagShape, rng: Generator) -> Pairs:
    """Some authors of a paper have its venue as home venue, and more have a venue of its topic."""
    papers, authors = shape.nodes["paper"], shape.nodes["author"]
    weights = heavy_tail(authors, 1.6, rng)
    at_home = Pools(world.home, weights, shape.nodes["venue"])
    in_topic = Pools(world.venue_topic[world.home], weights, world.num_topics)
    writers = Pools(np.zeros(papers, np.int64), heavy_tail(papers, 3, rng), 1)

    def of_papers(paper: Array) -> Array:
        ways = [
            lambda at: at_home.draw(world.venue[paper[at]], rng),
            lambda at: in_topic.draw(world.topic[paper[at]], rng),
            lambda at: in_topic.draw_any(len(at), rng),
        ]
        return blended([0.35, 0.45], ways, len(paper), rng)

    def draw(size: int) -> Pairs:
        paper = writers.draw_any(size, rng)
        return paper, of_papers(paper)

    by_venue = Pools(world.venue, np.ones(papers), shape.nodes["venue"])
    first = by_venue.draw(world.home, rng)  # every author has at least one paper
    orphans = np.setdiff1d(np.arange(papers), first)
    required = np.concatenate([first, orphans]), np.concatenate([np.arange(authors), of_papers(orphans)])
    return distinct_pairs(shape.edges["PA"], (papers, authors), draw, rng, required=required)


def _institutes(world: World, shape: OagShape, rng: Generator) -> Pairs:
    authors, institutes = shape.nodes["author"], shape.nodes["institute"]
    strong_in = rng.integers(world.num_topics, size=institutes)
    pools = Pools(strong_in, heavy_tail(institutes, 1.2, rng), world.num_topics)
    topic = world.venue_topic[world.home]

    def draw(size: int) -> Pairs:
        author = rng.integers(authors, size=size)
        ways = [lambda at: pools.draw(topic[author[at]], rng), lambda at: pools.draw_any(len(at), rng)]
        return author, blended([0.5], ways, size, rng)

    return distinct_pairs(shape.edges["AI"], (authors, institutes), draw, rng)


def _fields(world: World, shape: OagShape, level: str, rng: Generator) -> Pairs:
    """The fields of a level divide the topics among them, or the other way round if there are more fields."""
    papers, fields = shape.nodes["paper"], shape.nodes[level]
    groups = min(fields, world.num_topics)
    pools = Pools(np.arange(fields) * groups // fields, heavy_tail(fields, 1.2, rng), groups)
    group = world.topic * groups // world.num_topics

    def of_papers(paper: Array, share: float) -> Array:
        ways = [lambda at: pools.draw(group[paper[at]], rng), lambda at: pools.draw_any(len(at), rng)]
        return blended([share], ways, len(paper), rng)

    if level == "L0":
        return np.arange(papers), of_papers(np.arange(papers), 0.9)

    def draw(size: int) -> Pairs:
        paper = rng.integers(papers, size=size)
        return paper, of_papers(paper, 0.75)

    return distinct_pairs(shape.edges[f"P{level}"], (papers, fields), draw, rng)


def _citations(world: World, shape: OagShape, count: int, rng: Generator) -> Pairs:
    """Papers cite older papers of their venue, their topic or any topic."""
    papers = shape.nodes["paper"]
    fame = heavy_tail(papers, 1.3, rng)
    same_venue = Pools(world.venue, fame, shape.nodes["venue"])
    same_topic = Pools(world.topic, fame, world.num_topics)
    citing = Pools(np.zeros(papers, np.int64), heavy_tail(papers, 2.5, rng), 1)

    def draw(size: int) -> Pairs:
        paper = citing.draw_any(size, rng)
        ways = [
            lambda at: same_venue.draw(world.venue[paper[at]], rng),
            lambda at: same_topic.draw(world.topic[paper[at]], rng),
            lambda at: same_topic.draw_any(len(at), rng),
        ]
        return paper, blended([0.2, 0.5], ways, size, rng)

    def allowed(paper: Array, cited: Array) -> Array:
        return (paper != cited) & (world.year[paper] >= world.year[cited])

    return distinct_pairs(count, (papers, papers), draw, rng, allowed=allowed)
