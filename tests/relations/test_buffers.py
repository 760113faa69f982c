"""Buffers of large results: used again when nothing refers to them any more, never before, and bounded."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from fastgtn.relations import RelationStack
from fastgtn.relations.kernels import buffers

NUMBERS = buffers.LARGE // 4


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    buffers.release()
    yield
    buffers.release()


def tensor() -> torch.Tensor:
    return torch.from_numpy(buffers.empty((NUMBERS,), np.float32))


def test_a_free_buffer_is_used_again_and_one_in_use_is_not() -> None:
    first = tensor()
    address = first.data_ptr()
    assert address % 64 == 0
    assert tensor().data_ptr() != address
    row = first[5:6]  # a view keeps the whole buffer
    del first
    assert tensor().data_ptr() != address
    del row
    assert tensor().data_ptr() == address


def test_what_autograd_has_saved_is_in_use() -> None:
    x = torch.ones(NUMBERS, requires_grad=True)
    held = tensor().fill_(3)
    product = x * held
    del held
    for _ in range(3):
        tensor().fill_(7)
    product.sum().backward()
    assert x.grad is not None
    assert x.grad.unique().tolist() == [3]


def test_another_size_gets_another_buffer() -> None:
    held = [tensor() for _ in range(9)]  # so much was in use that a larger one has room beside them
    addresses = {one.data_ptr() for one in held}
    del held
    assert buffers.empty((2 * NUMBERS,), np.float32).ctypes.data not in addresses
    assert len(buffers._buffers) == 10
    assert buffers.empty((NUMBERS * 2,), np.int16).ctypes.data in addresses  # as many bytes


def test_small_results_are_not_kept() -> None:
    buffers.empty((10, 3), np.float64)
    assert buffers._buffers == []


def test_all_buffers_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "KEPT", 3 * buffers.LARGE)
    held = [tensor().fill_(number) for number in range(5)]
    assert sum(buffer.nbytes for buffer in buffers._buffers) <= buffers.KEPT
    assert [float(one.mean()) for one in held] == [0, 1, 2, 3, 4]


def test_free_buffers_of_other_sizes_do_not_pile_up() -> None:
    """Batches differ in size; the buffers of all of them take little more than those of the largest one."""
    for step in range(12):
        held = [buffers.empty((NUMBERS * (1 + step % 6) + part,), np.float32) for part in (0, 1)]
        in_use = sum(array.nbytes for array in held)
        assert sum(buffer.nbytes for buffer in buffers._buffers) >= in_use
        del held
    largest = 2 * (4 * (NUMBERS * 6 + 1) + 64)
    assert sum(buffer.nbytes for buffer in buffers._buffers) <= buffers.SPARE * largest


def test_threads_never_share_a_buffer() -> None:
    def work(number: int) -> bool:
        mine = tensor().fill_(number)
        others = [tensor().fill_(-1) for _ in range(2)]
        return bool((mine == number).all()) and len(others) == 2

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(60)))


def test_training_steps_are_the_same_on_used_memory() -> None:
    g = torch.Generator().manual_seed(0)
    nodes = 3000
    edges = {("n", "r", "n"): torch.randint(nodes, (2, 9000), generator=g)}
    stack = RelationStack.from_edges(edges, {"n": nodes}).row_normalized()
    h = torch.randn(nodes, 2, 64, generator=g, requires_grad=True)
    filters = torch.rand(2, len(stack), generator=g, requires_grad=True)

    def step() -> list[torch.Tensor]:
        out = stack.propagate(stack.propagate(h, filters), filters)
        return [out.detach().clone(), *torch.autograd.grad(out.square().sum(), [h, filters])]

    first = [part.clone() for part in step()]
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(first, step(), strict=True))
    assert 0 < len(buffers._buffers) <= 6
