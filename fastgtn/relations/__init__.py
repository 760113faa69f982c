"""The algebra of relations: no learning, no files."""

from fastgtn.relations.hops import Hops
from fastgtn.relations.schema import ANY, IDENTITY, Relation
from fastgtn.relations.stack import RelationMatrix, RelationStack

__all__ = ["ANY", "IDENTITY", "Hops", "Relation", "RelationMatrix", "RelationStack"]
