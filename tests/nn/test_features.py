"""Dense, sparse, per-type and missing features give what the plain product gives."""

import pytest
import torch
from graphs import randn, random_stack
from torch_geometric.data import HeteroData

from fastgtn import FastGTN, Features, InputError
from fastgtn.nn.inputs.encoders import InputLinear
from fastgtn.nn.inputs.features import FeatureBlock, SparseMatrix
from fastgtn.nn.inputs.reorder import inverse, reordered


def sparse_numbers(rows: int, cols: int, seed: int = 0) -> torch.Tensor:
    x = randn(rows, cols, seed=seed)
    return torch.where(x > 0.8, x, 0.0)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo, torch.sparse_csc])
def test_sparse_product_and_gradient(layout):
    x, weight = sparse_numbers(20, 9), randn(9, 37).requires_grad_()
    matrix = SparseMatrix.from_torch(x.to_sparse(layout=layout))
    out = matrix @ weight
    torch.testing.assert_close(out, x @ weight)
    torch.testing.assert_close(*(torch.autograd.grad(o.square().sum(), weight) for o in (out, x @ weight)))
    rows = torch.tensor([4, 4, 0])
    torch.testing.assert_close(matrix.select(rows) @ weight, x[rows] @ weight)


def test_sparse_dropout_scales_what_it_keeps():
    x = torch.ones(200, 50)
    kept = SparseMatrix.from_torch(x.to_sparse()).dropout(0.25).values
    assert kept.unique().tolist() == pytest.approx([0, 4 / 3])
    assert 0.7 < (kept > 0).float().mean() < 0.8


def test_an_encoder_ends_with_a_relu_and_dropout():
    nodes = Features((FeatureBlock("a", None, None, None, 4000),), 4000)  # nothing is dropped of embeddings
    encoder = InputLinear(nodes.widths, nodes.embedded, 3, dropout=0.4, encoder="relu")
    expected = torch.relu(encoder.weights[0])
    torch.testing.assert_close(encoder.eval()(nodes), expected)
    out = encoder.train()(nodes)
    left = out != 0
    torch.testing.assert_close(out[left], expected[left] / 0.6, rtol=1e-4, atol=0)  # shares are 16-bit numbers
    assert 0.55 < left[expected > 0].float().mean() < 0.65


def mixed_graph() -> HeteroData:
    graph = HeteroData()
    graph["a"].x = randn(4, 3)
    graph["b"].x = sparse_numbers(5, 7).to_sparse_csr()
    graph["c"].num_nodes = 2
    return graph


def test_types_with_other_widths_and_without_features():
    graph = mixed_graph()
    features = Features.from_hetero(graph)
    assert features.widths == {"a": 3, "b": 7}
    assert features.embedded == {"c": 2}
    assert repr(features) == "Features(11 rows: a 3 dense, b 7 sparse, c 2 embedded)"
    linear = InputLinear(features.widths, features.embedded, 6).double()
    a, b, c = linear.weights
    expected = torch.cat([graph["a"].x @ a, graph["b"].x.to_dense() @ b, c])
    torch.testing.assert_close(linear(features), expected)
    nodes = torch.tensor([10, 0, 7, 3, 4])
    chosen = features.select(nodes)
    torch.testing.assert_close(linear(chosen), expected[nodes])
    again = torch.tensor([2, 0])
    torch.testing.assert_close(linear(chosen.select(again)), expected[nodes][again])
    torch.testing.assert_close(linear.float()(features.to(torch.float32)).double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_csr])
def test_one_matrix_for_all_types(layout):
    graph = HeteroData()
    parts = [sparse_numbers(n, 6, seed=n) for n in (3, 4)]
    for name, x in zip("ab", parts, strict=True):
        graph[name].x = x if layout == torch.strided else x.to_sparse(layout=layout)
    graph.shared_features = True
    features = Features.from_hetero(graph)
    assert features.widths == {"shared": 6}
    linear = InputLinear(features.widths, {}, 5).double()
    torch.testing.assert_close(linear(features), torch.cat(parts) @ linear.weights[0])
    assert Features.from_hetero(graph, shared=False).widths == {"a": 6, "b": 6}


def test_dense_and_sparse_look_the_same_from_outside():
    stack = random_stack(3).row_normalized()
    x = sparse_numbers(stack.num_nodes, 6)
    model = FastGTN(6, 4, stack.relations, dropout=0.0).double()
    torch.testing.assert_close(model(x.to_sparse_csr(), stack), model(x, stack))


def test_bad_features_are_refused():
    graph = mixed_graph()
    with pytest.raises(InputError, match=r"shared features need the same width.*a 3, b 7, c none"):
        Features.from_hetero(graph, shared=True)
    graph["a"].num_nodes = 9
    with pytest.raises(InputError, match='"a" has 9 nodes but 4 feature rows'):
        Features.from_hetero(graph)
    graph["a"].x = torch.tensor([[float("inf")]])
    with pytest.raises(InputError, match='"a": features have NaN or infinite'):
        Features.from_hetero(graph)
    with pytest.raises(InputError, match=r"must be a tensor \[nodes, features\], but got \(3,\)"):
        Features.of(torch.ones(3))
    sparse = torch.tensor([[float("nan"), 0.0]]).to_sparse_csr()
    with pytest.raises(InputError, match="NaN or infinite"):
        Features.of(sparse)


def test_neighbours_in_memory_are_not_copied():
    whole = torch.randn(5, 3).half()
    graph = HeteroData()
    graph.shared_features = True
    graph["a"].x, graph["b"].x = whole[:2], whole[2:]
    features = Features.from_hetero(graph)
    assert features.blocks[0].matrix.data_ptr() == whole.data_ptr()
    assert features.blocks[0].matrix.equal(whole)
    graph["b"].x = whole[2:].clone()
    apart = Features.from_hetero(graph).blocks[0].matrix
    assert apart.data_ptr() != whole.data_ptr()
    assert apart.equal(whole)
    graph["a"].x, graph["b"].x = whole[3:], whole[:3]
    assert Features.from_hetero(graph).blocks[0].matrix.equal(torch.cat([whole[3:], whole[:3]]))


def test_half_precision_is_stored_but_not_computed_in():
    x = torch.randn(5, 3).half()
    features = Features.of(x)
    assert features.blocks[0].matrix.dtype == torch.float16
    chosen = features.select(torch.tensor([4, 1])).blocks[0].matrix
    assert chosen.dtype == torch.float32
    assert chosen.equal(x[[4, 1]].float())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sparse_features_in_half_precision_are_computed_in_float32(dtype):
    x = torch.randn(5, 3).to(dtype)
    whole = Features.of(x.to_sparse()).blocks[0].matrix
    torch.testing.assert_close(whole @ torch.eye(3), x.float())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_chosen_rows_are_the_rows(dtype):
    x = torch.randn(3000, 7).to(dtype)
    for size in (0, 1, 1024, 2500):
        rows = torch.randperm(3000)[:size]
        chosen = Features.of(x).select(rows).blocks[0].matrix
        assert chosen.equal(x[rows].to(torch.float64 if dtype == torch.float64 else torch.float32))


def test_chosen_rows_pass_gradients_on():
    x = torch.randn(4, 2, requires_grad=True)
    Features.of(x).select(torch.tensor([2, 0])).blocks[0].matrix.sum().backward()
    assert x.grad.tolist() == [[1, 1], [0, 0], [1, 1], [0, 0]]


def test_reordered_rows_and_their_gradients_are_those_of_an_index():
    order, rows = torch.randperm(7), torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(7, 3, dtype=torch.float64)
    expected, found = rows[order], reordered(rows, order, inverse(order))
    assert torch.equal(found, expected)
    assert torch.equal(*(torch.autograd.grad((out * weights).sum(), rows)[0] for out in (found, expected)))
    assert torch.autograd.gradgradcheck(lambda x: reordered(x, order, inverse(order)).square(), rows)


def test_what_inference_mode_has_kept_can_be_trained_with():
    stack, graph = random_stack(3).row_normalized(), HeteroData()
    for node_type, count in zip(stack.node_types, stack.node_counts, strict=True):
        graph[node_type].x = randn(count, 4)
    rows = torch.arange(stack.num_nodes).flip(0)
    features, hops = Features.from_hetero(graph).select(rows), stack.hops(2, rows)
    model = FastGTN(features, 5, stack.relations, dropout=0.0)
    with torch.inference_mode():
        model(features, hops)
    model(features, hops).sum().backward()
    assert all(weight.grad is not None for weight in model.input.weights)
