"""Joined meta-paths as words: sequences of numbers of relations, from the source outwards."""

from __future__ import annotations

from fastgtn.relations import Relation

Word = tuple[int, ...]
MOST_PATHS = 200  # that are looked at, the shortest first


def words_between(relations: tuple[Relation, ...], relation: Relation, own: set[int], longest: int) -> tuple[Word, ...]:
    """All sequences of relations from the source type to the target type, shortest first."""
    found: list[Word] = []
    begun: list[tuple[Word, str]] = [((), relation.source)]
    for _ in range(longest):
        begun = [
            ((*word, t), step.source) for word, here in begun for t, step in enumerate(relations) if step.target == here
        ]
        found += [word for word, here in begun if here == relation.target and not (len(word) == 1 and word[0] in own)]
        if len(begun) > 200 * MOST_PATHS:
            break
    return tuple(found)


def once(words: tuple[Word, ...], mirrored: tuple[int | None, ...]) -> tuple[Word, ...]:
    """Of each path and its reverse only the first, where every step has an exact reverse."""
    seen: set[tuple[int | None, ...]] = set()
    kept = []
    for word in words:
        if tuple(mirrored[t] for t in reversed(word)) not in seen:
            seen.add(word)
            kept.append(word)
    return tuple(kept)


def cut(word: Word) -> tuple[Word, Word]:
    """The two halves of a path; the first is the longer one."""
    middle = (len(word) + 1) // 2
    return word[:middle], word[middle:]


def highest(words: tuple[Word, ...]) -> int:
    """The largest number of a relation."""
    return max((t for word in words for t in word), default=-1)
