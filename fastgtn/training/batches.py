"""Mini-batches (algorithm 1 of the paper): targets, the graph sampled around them, and its features, made ahead."""

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from fastgtn.models import NodeClassifier
from fastgtn.relations import LayerSampler, NeighborSampler, RelationStack, Sampler, derived_seed
from fastgtn.training.batch_options import BatchOptions
from fastgtn.training.build import Inputs, Plan

Job = TypeVar("Job")
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Sampled:
    """A pass over a sampled part of the graph, and the seconds that it took to make."""

    plan: Plan
    sampling: float  # choosing nodes and edges, and preparing them for the model
    gathering: float  # fetching features


class Batcher:
    """Makes batches of a graph for a model. The same targets and seed always give the same batch."""

    def __init__(self, inputs: Inputs, model: NodeClassifier, options: BatchOptions) -> None:
        self.inputs, self.model = inputs, model
        self.sampler = build_sampler(inputs.raw, options, model.backbone.num_hops)

    def make(self, targets: Tensor, seed: int, wanted: slice = slice(None)) -> Sampled:
        """Sample around the targets, then keep what the wanted ones of them depend on."""
        started = time.perf_counter()
        planned = self.inputs.plan_batch(self.model, self.sampler.sample(targets, seed), wanted)
        sampled = time.perf_counter()
        plan = planned.gather(self.inputs.features)
        return Sampled(plan, sampled - started, time.perf_counter() - sampled)


def build_sampler(stack: RelationStack, options: BatchOptions, hops: int) -> Sampler:
    """The sampler of a config, for a model that sees so many hops far."""
    if options.sampler == "layer":
        return LayerSampler(stack, options.budget, max(hops, 1))
    return NeighborSampler(stack, options.fanouts_of(hops), per_relation=options.per_relation)


def shuffled(count: int, size: int, *seed: int) -> tuple[Tensor, ...]:
    """Numbers 0 … count − 1 in random order, cut into batches; the last one may be smaller."""
    draw = torch.Generator().manual_seed(derived_seed(*seed) & 0x7FFFFFFFFFFFFFFF)
    return torch.randperm(count, generator=draw).split(size)


def made_ahead(make: Callable[[Job], Made], jobs: Sequence[Job], ahead: int) -> Generator[Made, None, None]:
    """Make things in their order, up to `ahead` of them in threads before they are asked for.

    What is made does not depend on `ahead`. An error comes out where its thing would have; the threads end with
    the generator.
    """
    if not ahead:
        yield from map(make, jobs)
        return
    with ThreadPoolExecutor(min(ahead, len(jobs)) or 1, thread_name_prefix="fastgtn-batch") as pool:
        waiting: deque[Future[Made]] = deque()
        try:
            for job in jobs:
                waiting.append(pool.submit(make, job))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
