"""Hubs of a million edges, paths of twenty steps and weights over sixty orders of magnitude stay finite and right."""

import pytest
import torch

from fastgtn import GTN, FastGTN, RelationStack

STEPS = 20


def test_a_node_of_a_million_neighbours_has_their_mean() -> None:
    count = 1_000_000
    edges = {("leaf", "r", "hub"): torch.stack([torch.arange(count), torch.zeros(count, dtype=torch.int64)])}
    stack = RelationStack.from_edges(edges, {"leaf": count, "hub": 1}, identity=False).row_normalized()
    h = torch.rand(count + 1, 1, 2)
    out = stack.propagate(h, torch.ones(1, 1))[-1, 0]
    # float32 sums of a million terms that are added one after the other
    torch.testing.assert_close(out.double(), h[:-1, 0].double().mean(0), rtol=1e-3, atol=0)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("cls", [GTN, FastGTN])
def test_long_paths_do_not_depend_on_the_scale_of_the_weights(cls: type[GTN | FastGTN], scale: float) -> None:
    """Both models divide by the sum of a row, so a common factor of all weights cancels; identity edges have none."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(6, (2, 30), generator=generator)
    weight = torch.rand(30, generator=generator) + 0.5
    x = torch.randn(6, 3, generator=generator)
    outs = []
    for factor in (1.0, scale):
        stack = RelationStack.from_edges({("n", "r", "n"): (pairs, weight * factor)}, {"n": 6}, identity=False)
        stack = stack.row_normalized() if cls is FastGTN else stack
        torch.manual_seed(0)
        model = cls(3, 4, stack.relations, path_length=STEPS, gamma=0.0, dropout=0.0).eval()
        out = model(x, stack)
        out.sum().backward()
        assert all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in model.parameters())
        outs.append(out.detach())
    torch.testing.assert_close(outs[1], outs[0], rtol=1e-4, atol=1e-5)
