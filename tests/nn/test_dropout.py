"""Dropout of large matrices: the right share, the right scale, and the same numbers whoever draws them."""

import pytest
import torch
from torch import Tensor

from fastgtn.relations.kernels import dropout
from fastgtn.relations.kernels.dropout import drop


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Tensor:
    monkeypatch.setattr(dropout, "LARGE", 1)
    monkeypatch.setattr(dropout, "PIECE", 1 << 10)
    return torch.rand(1001, 33, generator=torch.Generator().manual_seed(0)) + 1


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_right_share_falls_and_the_rest_makes_up_for_it(large: Tensor, p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = large.to(dtype)
    out = drop(x, p)
    kept = out != 0
    assert out.dtype == dtype
    torch.testing.assert_close(out[kept], x[kept] / (1 - p), rtol=1e-4, atol=0)
    share = 1 - float(kept.double().mean())
    assert share == pytest.approx(p, abs=5 * (p * (1 - p) / x.numel()) ** 0.5)
    rows, columns = kept.double().mean(1), kept.double().mean(0)
    assert float(rows.std()) == pytest.approx((p * (1 - p) / 33) ** 0.5, rel=0.15)
    assert float(columns.std()) == pytest.approx((p * (1 - p) / 1001) ** 0.5, rel=0.5)


def test_neighbours_fall_independently(large: Tensor) -> None:
    torch.manual_seed(1)
    fallen = (drop(large, 0.5) == 0).flatten().double() - 0.5
    for lag in (1, 2, 3, 4, 5, 33, 64):
        together = float((fallen[lag:] * fallen[:-lag]).mean()) * 4
        assert abs(together) < 5 / large.numel() ** 0.5, lag


def test_the_generator_decides_and_threads_do_not(large: Tensor) -> None:
    torch.manual_seed(3)
    first, second = drop(large, 0.5), drop(large, 0.5)
    assert not torch.equal(first, second)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        torch.manual_seed(3)
        assert torch.equal(drop(large, 0.5), first)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_falls_where_the_number_fell(large: Tensor, dtype: torch.dtype) -> None:
    x = large.to(dtype).T.requires_grad_()  # not contiguous
    out = drop(x, 0.3)
    weights = torch.rand(x.shape, dtype=dtype)
    (grad,) = torch.autograd.grad((out * weights).sum(), x)
    torch.testing.assert_close(grad, weights * (out / x).detach())


def test_small_matrices_and_other_numbers_are_torchs() -> None:
    for x in (torch.rand(20, 5, requires_grad=True), torch.rand(200, 50).to(torch.bfloat16)):
        torch.manual_seed(0)
        ours = drop(x, 0.5)
        torch.manual_seed(0)
        assert torch.equal(ours, torch.nn.functional.dropout(x, 0.5))


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_nothing_or_everything_falls(large: Tensor, p: float) -> None:
    assert torch.equal(drop(large, p), large * (1 - p))
    assert drop(large, p, training=False) is large


def test_a_compiled_program_draws_within_its_graph() -> None:
    x = torch.ones(dropout.LARGE, requires_grad=True)
    torch.manual_seed(0)
    out = torch.compile(lambda x: drop(2 * x, 0.25), backend="aot_eager", fullgraph=True)(x)
    out.sum().backward()
    kept = out.detach() > 0
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.03)
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.where(kept, 2 / 0.75, 0.0))
