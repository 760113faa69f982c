"""The layers for PyTorch Geometric on another device: representations and gradients are those of the processor."""

from typing import Any

import pytest
import torch
from pretend_device import DEVICE, PretendDevice
from torch import Tensor

from fastgtn.nn import FastGTNConv, GTNConv

COUNTS = {"few": 3, "many": 600}  # one type is so small that its nodes are looked up instead of marked
WRITES, REV = ("few", "writes", "many"), ("many", "rev_writes", "few")


def graph() -> tuple[dict[str, Tensor], dict[Any, Tensor]]:
    g = torch.Generator().manual_seed(0)
    x = {"few": torch.randn(3, 4, generator=g), "many": torch.randn(600, 5, generator=g)}
    ends = torch.stack([torch.randint(3, (900,), generator=g), torch.randint(600, (900,), generator=g)])
    return x, {WRITES: ends, REV: ends.flip(0)}


def computed(
    layer: torch.nn.Module, x: dict[str, Tensor], edges: dict[Any, Tensor]
) -> tuple[dict[str, Tensor], list[Tensor]]:
    out = layer(x, edges)
    sum(z.square().sum() for z in out.values()).backward()
    gradients = [p.grad for p in layer.parameters() if p.grad is not None]
    return {key: z.detach().cpu() for key, z in out.items()}, [gradient.cpu() for gradient in gradients]


@pytest.mark.parametrize("options", [{}, {"target": "few"}, {"target": "many", "num_layers": 2}], ids=str)
@pytest.mark.parametrize("kind", [FastGTNConv, GTNConv])
def test_a_layer_runs_where_its_tensors_are(kind: type[torch.nn.Module], options: dict[str, Any]) -> None:
    x, edges = graph()
    widths = {name: matrix.size(1) for name, matrix in x.items()}
    layer = kind(widths, 6, (list(COUNTS), [WRITES, REV]), dropout=0.0, **options)
    here, gradients = computed(layer, x, edges)
    layer.zero_grad()
    with PretendDevice():
        far = [{key: value.to(DEVICE) for key, value in given.items()} for given in (x, edges)]
        there, far_gradients = computed(layer.to(DEVICE), *far)
    torch.testing.assert_close(there, here)
    torch.testing.assert_close(far_gradients, gradients, rtol=1e-3, atol=1e-4)
