"""The keys of mini-batches: those of all samplers, and how batches are used."""

from typing import Annotated, Literal

from pydantic import Field

from fastgtn.options import Free, one_of
from fastgtn.relations.sampling.entry import samplers
from fastgtn.relations.sampling.layer import LayerOptions
from fastgtn.relations.sampling.neighbor import NeighborOptions


class BatchOptions(LayerOptions, NeighborOptions):
    """How many targets a step has, and how the graph around them is sampled."""

    size: Annotated[int, Field(ge=0)] = 0
    sampler: Annotated[str, one_of(samplers)] = "neighbor"
    prefetch: Annotated[int, Field(ge=0), Free()] = 2
    eval: Literal["auto", "full", "batches"] = "auto"
