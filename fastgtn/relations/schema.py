"""The names of relations."""

from typing import NamedTuple

ANY = "*"  # the node type of relations that connect nodes of all types


class Relation(NamedTuple):
    """One kind of edge, named as in PyTorch Geometric: messages go from `source` to `target` nodes."""

    source: str
    name: str
    target: str

    def __str__(self) -> str:
        return self.name if ANY in (self.source, self.target) else f"{self.source}-{self.name}-{self.target}"


IDENTITY = Relation(ANY, "identity", ANY)
