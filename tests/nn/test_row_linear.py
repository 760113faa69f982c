"""A row of a product has the same bits alone as among many."""

import pytest
import torch

from fastgtn.nn.row_linear import RowLinear, row_product

COUNTS = (*range(1, 34), 64, 90, 127, 255, 256, 300, 512, 600)


@pytest.mark.parametrize("inputs", [1, 2, 8, 64, 334])
@pytest.mark.parametrize("outputs", [1, 2, 3, 16, 128])
def test_rows_do_not_depend_on_the_others(inputs: int, outputs: int) -> None:
    x, layer = torch.randn(700, inputs), RowLinear(inputs, outputs)
    plain, weight = RowLinear(inputs, outputs, bias=False), torch.randn(inputs, outputs)
    whole = layer(x), plain(x), row_product(x, weight)
    for count in COUNTS:
        some = x[:count]
        for few, many in zip((layer(some), plain(some), row_product(some, weight)), whole, strict=True):
            assert torch.equal(few, many[:count]), count
    torch.testing.assert_close(whole[0], x @ layer.weight.T + layer.bias, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(whole[2], x @ weight, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_rows_that_are_added_have_no_gradient(outputs: int) -> None:
    x, layer = torch.randn(3, 4, dtype=torch.float64, requires_grad=True), RowLinear(4, outputs).double()
    assert torch.autograd.gradcheck(layer, (x,))
    layer.zero_grad()
    layer(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, x.detach().sum(0).expand(outputs, 4))
    torch.testing.assert_close(layer.bias.grad, torch.full((outputs,), 3.0, dtype=torch.float64))


def test_no_rows_are_no_rows() -> None:
    assert RowLinear(4, 1)(torch.zeros(0, 4)).shape == (0, 1)
    assert row_product(torch.zeros(0, 4), torch.zeros(4, 3)).shape == (0, 3)
