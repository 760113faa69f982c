"""A random schema: node types, relations between them, and the walks that decide the labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from fastgtn.errors import InputError

NAMES = ("gene", "drug", "disease", "tissue", "pathway", "user", "item", "shop")
MOST_RELATIONS = 40
LONGEST_PATH = 4
MOST_PATHS = 2


@dataclass(frozen=True)
class Link:
    """One relation: messages go from the far type to the near one; a walk from the target goes the other way."""

    name: str
    near: int
    far: int
    degree: int  # mean number of far nodes of a near node


@dataclass(frozen=True)
class RandomSchema:
    """Type 0 is the target; walks are numbers of links, next to the target first."""

    types: tuple[str, ...]
    links: tuple[Link, ...]
    walks: tuple[tuple[int, ...], ...]

    def end(self, walk: tuple[int, ...]) -> int:
        """The node type where a walk ends."""
        return self.links[walk[-1]].far

    def edge_type(self, link: int) -> tuple[str, str, str]:
        """The PyG edge type of a link: (source, name, target) in the direction of the messages."""
        one = self.links[link]
        return self.types[one.far], one.name, self.types[one.near]


def draw_schema(
    rng: Generator, *, types: int | None, relations: int | None, steps: int | None, paths: int
) -> RandomSchema:
    """Draw a schema. Values that are None are drawn: 2 to 8 types, 4 to 40 relations, paths of 1 to 4 steps."""
    _check("types", types, 2, len(NAMES))
    _check("relations", relations, 4, MOST_RELATIONS)
    _check("steps", steps, 1, LONGEST_PATH)
    _check("paths", paths, 1, MOST_PATHS)
    num_types = types or int(rng.integers(2, len(NAMES) + 1))
    num_relations = relations or int(rng.integers(max(4, num_types), MOST_RELATIONS + 1))
    names = tuple(str(name) for name in rng.permutation(NAMES)[:num_types])
    joined = _joined(rng, num_types, num_relations)
    links = tuple(Link(f"r{k}", near, far, int(rng.integers(1, 4))) for k, (near, far) in enumerate(joined))
    walks: list[tuple[int, ...]] = []
    while len(walks) < paths:
        walk = _walk(rng, links, steps or int(rng.integers(1, LONGEST_PATH + 1)))
        if walk not in walks:
            walks.append(walk)
    return RandomSchema(names, links, tuple(walks))


def _joined(rng: Generator, num_types: int, num_relations: int) -> list[tuple[int, int]]:
    """Pairs (near, far): every type can be reached from the target, and a walk can go on from every type."""
    pairs = [(int(rng.integers(far)), far) for far in range(1, num_types)]
    while len(pairs) < num_relations:
        if rng.random() < 0.5:
            near, far = pairs[rng.integers(len(pairs))]
            pairs.append((far, near))
        else:
            pairs.append((int(rng.integers(num_types)), int(rng.integers(num_types))))
    stuck = set(range(num_types)) - {near for near, _ in pairs}
    return pairs + [(near, int(rng.integers(num_types))) for near in sorted(stuck)]


def _walk(rng: Generator, links: tuple[Link, ...], steps: int) -> tuple[int, ...]:
    at, walk = 0, []
    for _ in range(steps):
        walk.append(int(rng.choice([k for k, link in enumerate(links) if link.near == at])))
        at = links[walk[-1]].far
    return tuple(walk)


def _check(name: str, value: int | None, least: int, most: int) -> None:
    if value is not None and not (isinstance(value, int | np.integer) and least <= value <= most):
        raise InputError(f"{name} is {value}; give a whole number from {least} to {most}.")
