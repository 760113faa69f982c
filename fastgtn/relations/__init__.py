"""The algebra of relations: no learning, no files."""

from fastgtn.relations.hops import Hops
from fastgtn.relations.matrix import RelationMatrix
from fastgtn.relations.sampling.batch import Batch, Sampler
from fastgtn.relations.sampling.layer import LayerSampler
from fastgtn.relations.sampling.neighbor import NeighborSampler, derived_seed
from fastgtn.relations.schema import ANY, IDENTITY, Relation
from fastgtn.relations.stack import RelationStack

__all__ = [
    "ANY",
    "IDENTITY",
    "Batch",
    "Hops",
    "LayerSampler",
    "NeighborSampler",
    "Relation",
    "RelationMatrix",
    "RelationStack",
    "Sampler",
    "derived_seed",
]
