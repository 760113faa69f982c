"""torch.compile and torch.export see one operator per hop, with the values and gradients of the eager path."""

import shutil

import pytest
import torch
from graphs import randn, random_filters, random_stack

from fastgtn import InputError
from fastgtn.relations import RelationStack
from fastgtn.relations.compiled import hop_op


def example() -> tuple[RelationStack, torch.Tensor, torch.Tensor]:
    stack = random_stack(11, num_types=2, num_relations=3, max_nodes=6, max_edges=12).row_normalized()
    h = randn(stack.num_nodes, 2, 3).requires_grad_()
    return stack, h, random_filters(2, len(stack)).requires_grad_()


def op_inputs(stack, h, filters):
    (edges,), diagonal = stack.operator.edges, stack.operator.diagonal
    layout = edges.segments
    return (
        h,
        filters[:, edges.columns],
        diagonal.pattern_weights(filters),
        edges.values,
        layout.row_ptr,
        layout.relation,
        layout.seg_ptr,
        layout.col,
        diagonal.pattern,
        layout.num_relations,
    )


def test_the_operator_keeps_the_rules_of_torch_library():
    """Schema, fake implementation, autograd formula, and tracing with AOTAutograd."""
    inputs = op_inputs(*example())
    torch.library.opcheck(hop_op, inputs)
    with_values = (*inputs[:3], inputs[3].clone().requires_grad_(), *inputs[4:])
    torch.library.opcheck(hop_op, with_values)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_compiled_hop_has_no_graph_break_and_the_same_bits(backend):
    if backend == "inductor" and not (shutil.which("g++") or shutil.which("c++")):
        pytest.skip("no C++ compiler: torch.compile cannot generate code here")
    stack, h, filters = example()

    def two_hops(h, filters):
        return stack.propagate(torch.tanh(stack.propagate(h, filters)), filters)

    expected = two_hops(h, filters)
    compiled = torch.compile(two_hops, backend=backend, fullgraph=True)(h, filters)
    torch.testing.assert_close(compiled, expected, rtol=1e-12, atol=1e-12)
    probe = randn(*expected.shape, seed=3)
    for one, other in zip(
        torch.autograd.grad((expected * probe).sum(), (h, filters)),
        torch.autograd.grad((compiled * probe).sum(), (h, filters)),
        strict=True,
    ):
        torch.testing.assert_close(other, one, rtol=1e-12, atol=1e-12)


def test_several_blocks_of_edges_and_edge_gradients_compile():
    stack, h, filters = example()
    joined = stack.join(random_stack(11, num_types=2, num_relations=3, max_nodes=6, max_edges=12))
    filters = random_filters(2, len(joined))
    compiled = torch.compile(joined.propagate, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(h, filters), joined.propagate(h, filters), rtol=1e-12, atol=1e-12)


def test_the_operator_refuses_what_would_read_outside_of_its_tables():
    stack, h, filters = example()
    inputs = op_inputs(stack, h, filters)
    with pytest.raises(InputError, match="an operator of 8 rows, 1 columns"):
        hop_op(h[:1].detach(), *inputs[1:])
    with pytest.raises(InputError, match="takes loops"):
        hop_op(*inputs[:2], inputs[2][:0].detach(), *inputs[3:])
    wrong = inputs[4].clone()
    wrong[1] = 10_000
    with pytest.raises(InputError, match="row_ptr must grow from 0"):
        hop_op(*inputs[:4], wrong, *inputs[5:])
