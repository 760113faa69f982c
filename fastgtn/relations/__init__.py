"""The algebra of relations: no learning, no files."""

from fastgtn.relations.batch import Batch, Sampler
from fastgtn.relations.hops import Hops
from fastgtn.relations.layer_sampling import LayerSampler
from fastgtn.relations.matrix import RelationMatrix
from fastgtn.relations.sampling import NeighborSampler, derived_seed
from fastgtn.relations.schema import ANY, IDENTITY, Relation
from fastgtn.relations.stack import RelationStack

__all__ = [
    "ANY", "IDENTITY", "Batch", "Hops", "LayerSampler", "NeighborSampler", "Relation", "RelationMatrix",
    "RelationStack", "Sampler", "derived_seed",
]  # fmt: skip
