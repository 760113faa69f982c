"""The names of relations."""

from collections.abc import Sequence
from typing import NamedTuple

from fastgtn.errors import InputError, nearest

ANY = "*"  # the node type of relations that connect nodes of all types


class Relation(NamedTuple):
    """One kind of edge, named as in PyTorch Geometric: messages go from `source` to `target` nodes."""

    source: str
    name: str
    target: str

    def __str__(self) -> str:
        return self.name if ANY in (self.source, self.target) else f"{self.source}-{self.name}-{self.target}"


IDENTITY = Relation(ANY, "identity", ANY)


def position_of(name: str, relations: Sequence[Relation]) -> int:
    """The position of a relation, by its name or by "source-name-target"."""
    found = [t for t, relation in enumerate(relations) if name in (relation.name, str(relation))]
    if len(found) == 1:
        return found[0]
    if found:
        full = ", ".join(f'"{relations[t]}"' for t in found)
        raise InputError(f'several relations are named "{name}": use one of {full}.')
    known = {option for relation in relations for option in (relation.name, str(relation))}
    raise InputError(f'no relation "{name}"; {nearest(name, known)}')
