"""A sampler is one entry, and keys that change no weights are marked where they are declared."""

from pathlib import Path

import pytest
import torch
from quick_config import quick
from torch import Tensor

import fastgtn
from fastgtn.config.config import free_keys
from fastgtn.data import load
from fastgtn.errors import InputError
from fastgtn.options import Section
from fastgtn.relations import Batch, NeighborSampler, RelationStack
from fastgtn.relations.sampling import entry
from fastgtn.relations.sampling.entry import GraphSize, SamplerEntry, register
from fastgtn.training.memory import plan_memory

asked: list[int] = []


class WholeGraph:
    """Every batch is the whole neighbourhood of its targets."""

    def __init__(self, stack: RelationStack, hops: int) -> None:
        self.sampler = NeighborSampler(stack, [None] * hops)

    def sample(self, targets: Tensor, seed: int) -> Batch:
        asked.append(len(targets))
        return self.sampler.sample(targets, seed)


@pytest.fixture(autouse=True)
def whole(monkeypatch: pytest.MonkeyPatch) -> SamplerEntry:
    monkeypatch.setattr(entry, "_SAMPLERS", entry.samplers())
    asked.clear()
    return register(SamplerEntry("whole", Section, lambda _, stack, hops: WholeGraph(stack, hops), _all_nodes))


def _all_nodes(options: object, size: GraphSize, hops: int) -> float:  # noqa: ARG001
    return size.num_nodes


def test_it_makes_the_batches_of_a_training(graph_file: Path) -> None:
    graph, task = load(graph_file)
    result = fastgtn.fit(graph, task, quick(batch={"size": 16, "sampler": "whole"}, fit={"epochs": 2}))
    exact = fastgtn.fit(graph, task, quick(batch={"size": 16, "fanouts": "all"}, fit={"epochs": 2}))
    assert sum(asked) == 2 * len(task.train)
    assert [record["loss"] for record in result.history] == [record["loss"] for record in exact.history]


def test_the_estimate_of_memory_asks_it(graph_file: Path) -> None:
    graph, task = load(graph_file)
    few, all_nodes = (
        plan_memory(graph, task, quick(batch={"size": 1, "fanouts": 1, "sampler": name})).mini_batch
        for name in ("neighbor", "whole")
    )
    assert all_nodes > few


def test_names_are_taken_once_and_wrong_ones_are_answered(whole: SamplerEntry) -> None:
    with pytest.raises(InputError, match='a sampler "whole" already exists: choose another name'):
        register(whole)
    with pytest.raises(InputError, match=r'batch\.sampler cannot be "wole"; did you mean "whole"'):
        quick(batch={"sampler": "wole"})


def test_free_keys_are_those_that_change_no_weights(graph_file: Path) -> None:
    assert free_keys() == {
        "fit.runs",
        "fit.seed",
        "fit.checkpoint_every",
        "fit.tensorboard",
        "fit.device",
        "fit.max_memory_gb",
        "batch.prefetch",
    }
    graph, task = load(graph_file)
    one = fastgtn.fit(graph, task, quick(batch={"size": 16}, fit={"epochs": 2}))
    other = fastgtn.fit(
        graph, task, quick(batch={"size": 16, "prefetch": 0}, fit={"epochs": 2, "checkpoint_every": 1, "runs": 3})
    )
    for mine, theirs in zip(one.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
