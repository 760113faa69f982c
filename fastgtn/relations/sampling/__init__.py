"""Parts of a graph around some targets, drawn from a seed."""

from fastgtn.relations.sampling.batch import Batch, Sampler
from fastgtn.relations.sampling.layer import LayerSampler
from fastgtn.relations.sampling.neighbor import NeighborSampler, derived_seed

__all__ = ["Batch", "LayerSampler", "NeighborSampler", "Sampler", "derived_seed"]
