"""Meta-paths and the names people give them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fastgtn.relations.schema import ANY, IDENTITY, Relation


@dataclass(frozen=True)
class MetaPath:
    """Relations from the target node outwards: author ← paper ← venue takes (paper → author), (venue → paper).

    Args:
        relations: The steps that are really taken, next to the target first.
        types: The node types along the way, one more than there are steps.
    """

    relations: tuple[Relation, ...]
    types: tuple[str, ...]

    @staticmethod
    def of(relations: Sequence[Relation], *, start: str | None = None) -> MetaPath:
        """From relations with fixed node types; the empty path needs its `start`."""
        steps = tuple(Relation(*relation) for relation in relations)
        for near, far in pairwise(steps):
            if near.source != far.target:
                raise ValueError(f"{near} comes from {near.source}, but the next step {far} leads to {far.target}.")
        first = steps[0].target if steps else start
        if first is None:
            raise ValueError("the empty path needs the node type it stays at.")
        return MetaPath(steps, (first, *(step.source for step in steps)))

    def __len__(self) -> int:
        return len(self.relations)

    @property
    def steps(self) -> tuple[tuple[Relation, str, str], ...]:
        """Each step with the node types that it connects: (relation, near the target, farther out)."""
        return tuple(zip(self.relations, self.types[:-1], self.types[1:], strict=True))


class PathNames:
    """Short and long names of the meta-paths of one schema, each of them unambiguous.

    Letters are the initials of the node types, or longer prefixes if initials coincide. If several
    relations connect the same two types, the relation is given in brackets. ``~`` is a non-local step. On a graph of
    one type and one relation a path is its number of hops.
    """

    def __init__(self, node_types: Sequence[str], relations: Sequence[Relation]) -> None:
        self.letters = _initials(node_types)
        proper = [r for r in relations if r != IDENTITY and ANY not in (r.source, r.target)]
        self._kinds = Counter((r.target, r.source) for r in proper)
        others = [r for r in relations if r != IDENTITY and r not in proper]
        self._unnamed = {r for r in others if r.name == "non_local"}
        self.counts_hops = len(node_types) == 1 and len(proper) + len(others) == 1 and not self._unnamed

    def short(self, path: MetaPath) -> str:
        """APCPA; AP[cites]P where needed; "2 hops" on a homogeneous graph."""
        if self.counts_hops:
            return _hops(len(path))
        words = [self.letters[path.types[0]]]
        for relation, _, far in path.steps:
            mark = "~" if relation in self._unnamed else f"[{relation.name}]" if self._ambiguous(relation) else ""
            words.append(mark + self.letters[far])
        return "".join(words)

    def long(self, path: MetaPath) -> str:
        """author ← paper ← conference ← paper ← author."""
        if self.counts_hops:
            return _hops(len(path))
        words = [path.types[0]]
        for relation, _, far in path.steps:
            arrow = "~" if relation in self._unnamed else f"←[{relation.name}]" if self._ambiguous(relation) else "←"
            words.append(f"{arrow} {far}")
        return " ".join(words)

    def _ambiguous(self, relation: Relation) -> bool:
        return ANY in (relation.source, relation.target) or self._kinds[relation.target, relation.source] > 1


def _hops(count: int) -> str:
    return "1 hop" if count == 1 else f"{count} hops"


def _initials(node_types: Sequence[str]) -> dict[str, str]:
    """The shortest beginnings that no two types share."""
    letters = {}
    for name in node_types:
        others = [other.lower() for other in node_types if other != name]
        size = next(
            (n for n in range(1, len(name)) if not any(other.startswith(name[:n].lower()) for other in others)),
            len(name),
        )
        letters[name] = name[:1].upper() + name[1:size]
    return letters
