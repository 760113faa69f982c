"""The entry of a sampler: its name, its keys, how it is built from them, and how large its batches are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastgtn.errors import InputError
from fastgtn.options import Section
from fastgtn.relations.sampling.batch import Sampler
from fastgtn.relations.stack import RelationStack


@dataclass(frozen=True)
class GraphSize:
    """What an estimate knows about a graph, and about the batches that are drawn from it.

    Args:
        mean_draws: The mean number of edges that a node draws, in each round of the neighbour sampler.
    """

    num_nodes: int
    num_node_types: int
    batch_size: int
    mean_draws: tuple[float, ...]


@dataclass(frozen=True)
class SamplerEntry:
    """Everything that the rest of the library knows about a sampler.

    Args:
        name: The value of `batch.sampler`.
        options: Its keys in the section `[batch]`.
        build: A sampler with these options, of a graph, for a model with this many hops.
        num_nodes: About how many different nodes a batch has, with these options and this many hops.
    """

    name: str
    options: type[Section]
    build: Callable[[Any, RelationStack, int], Sampler]
    num_nodes: Callable[[Any, GraphSize, int], float]


_SAMPLERS: dict[str, SamplerEntry] = {}


def register(entry: SamplerEntry) -> SamplerEntry:
    """Make a sampler known to configs, training and the estimate of memory."""
    if entry.name in _SAMPLERS:
        raise InputError(f'a sampler "{entry.name}" already exists: choose another name.')
    _SAMPLERS[entry.name] = entry
    return entry


def samplers() -> dict[str, SamplerEntry]:
    """All samplers by name."""
    return dict(_SAMPLERS)
