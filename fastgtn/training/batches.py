"""Mini-batches (algorithm 1 of the paper): targets, the sampled graph around them, and its features, prepared ahead."""

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from fastgtn.config.batch_options import BatchOptions
from fastgtn.nn import NodeClassifier
from fastgtn.relations import Sampler, derived_seed
from fastgtn.relations.sampling.entry import samplers
from fastgtn.relations.sampling.moments import MomentSampler
from fastgtn.training.build import Inputs, Plan

Job = TypeVar("Job")
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Sampled:
    """A pass over a sampled part of the graph, and the seconds it took to prepare."""

    plan: Plan
    sampling: float  # choosing nodes and edges, and preparing them for the model
    gathering: float  # fetching features


class Batcher:
    """Prepares batches of a graph for a model. The same targets and seed always give the same batch."""

    def __init__(self, inputs: Inputs, model: NodeClassifier, options: BatchOptions) -> None:
        self.inputs, self.model = inputs, model
        entry, hops = samplers()[options.sampler], model.backbone.num_hops
        self.sampler: Sampler
        if inputs.moments is None:
            self.sampler = entry.build(options, inputs.raw, hops)
        else:
            self.sampler = MomentSampler(lambda past: entry.build(options, past, hops), inputs.raw, inputs.moments)

    def make(self, targets: Tensor, seed: int, wanted: slice = slice(None)) -> Sampled:
        """Sample around the targets, then keep what the requested ones depend on."""
        started = time.perf_counter()
        planned = self.inputs.plan_batch(self.model.backbone, self.sampler.sample(targets, seed), wanted)
        sampled = time.perf_counter()
        plan = planned.gather(self.inputs.features).to(self.inputs.device, pin=True)
        return Sampled(plan, sampled - started, time.perf_counter() - sampled)


def shuffled(count: int, size: int, *seed: int) -> tuple[Tensor, ...]:
    """Numbers 0 … count − 1 in random order, divided into batches; the last one may be smaller."""
    draw = torch.Generator().manual_seed(derived_seed(*seed) & 0x7FFFFFFFFFFFFFFF)
    return torch.randperm(count, generator=draw).split(size)


def made_ahead(make: Callable[[Job], Made], jobs: Sequence[Job], ahead: int) -> Generator[Made, None, None]:
    """Compute values in order, up to `ahead` of them in threads before they are requested.

    The values do not depend on `ahead`. An error is raised at the position of its value. The threads end with
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
