"""A stack keeps what a graph says: direction, weights, names; and nothing of it changes."""

import copy

import pytest
import torch
from graphs import randn, random_filters, random_stack, stacks
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import dense, row_normalized
from torch_geometric.data import Data, HeteroData

from fastgtn import InputError, RelationStack
from fastgtn.relations import IDENTITY, Relation


@pytest.fixture
def library() -> HeteroData:
    """Two authors, three papers, one venue; author 1 wrote papers 0 and 2; no path is its own reverse."""
    graph = HeteroData()
    graph["author"].num_nodes, graph["paper"].num_nodes, graph["venue"].num_nodes = 2, 3, 1
    graph["author", "writes", "paper"].edge_index = torch.tensor([[1, 1], [0, 2]])
    graph["author", "writes", "paper"].edge_weight = torch.tensor([0.5, 2.0])
    graph["venue", "prints", "paper"].edge_index = torch.tensor([[0], [1]])
    return graph


def test_messages_go_from_source_to_target(library):
    """A[i, j] weighs the message from j to i: rows are papers, columns are authors."""
    stack = RelationStack.from_hetero(library)
    expected = torch.zeros(6, 6)
    expected[2, 1], expected[4, 1] = 0.5, 2.0  # papers 0 and 2 are nodes 2 and 4
    torch.testing.assert_close(stack["writes"].to_dense(), expected)
    torch.testing.assert_close(stack["identity"].to_dense(), torch.eye(6))
    h = torch.arange(6.0)[:, None]
    torch.testing.assert_close(stack["writes"] @ h, torch.tensor([[0.0], [0.0], [0.5], [0.0], [2.0], [0.0]]))


def test_a_meta_path_is_read_from_the_target_outwards(library):
    """venue ← paper ← author is rev_prints · writes; the other order reaches nothing."""
    library["author", "writes", "paper"].edge_index = torch.tensor([[1], [1]])
    library["author", "writes", "paper"].edge_weight = torch.ones(1)
    stack = RelationStack.from_hetero(library, reverse=True)
    first, second = (
        torch.nn.functional.one_hot(torch.tensor([stack.index(n)]), len(stack)).float()
        for n in ("rev_prints", "writes")
    )
    h = torch.eye(6)[:, None]
    forward = stack.propagate(stack.propagate(h, second), first)[:, 0]
    assert forward.nonzero().tolist() == [[5, 1]]  # the venue hears author 1
    assert not stack.propagate(stack.propagate(h, first), second).any()


def test_names_counts_and_repr(library):
    stack = RelationStack.from_hetero(library, reverse=True)
    assert stack.relations[0] == Relation("author", "writes", "paper")
    assert stack.relations[2] == Relation("paper", "rev_writes", "author")
    assert stack.relations[-1] == IDENTITY
    assert stack.has_identity
    assert len(stack) == 5
    assert (stack.num_nodes, stack.num_edges) == (6, 6)
    assert list(stack.nodes_of("paper")) == [2, 3, 4]
    assert "paper ← author  writes  (2 edges)" in repr(stack)
    torch.testing.assert_close(stack["rev_writes"].to_dense(), stack["writes"].to_dense().T)


def test_the_callers_graph_is_left_alone(library):
    before = copy.deepcopy(library)
    stack = RelationStack.from_hetero(library, reverse=True)
    stack.row_normalized().propagate(torch.ones(6, 1, 1), torch.ones(1, 5))
    assert library.to_dict().keys() == before.to_dict().keys()
    for edge_type in before.edge_types:
        assert set(library[edge_type].keys()) == set(before[edge_type].keys())
        assert torch.equal(library[edge_type].edge_index, before[edge_type].edge_index)
    library["author", "writes", "paper"].edge_weight.mul_(0)
    library["author", "writes", "paper"].edge_index.zero_()
    assert stack["writes"].to_dense().sum() == 2.5  # and the stack does not follow later changes


def test_homogeneous_graphs_are_one_relation():
    data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    stack = RelationStack.from_data(data)
    assert stack.names == ("node-edge-node", "identity")
    assert stack["edge"].to_dense()[1, 0] == 1


def test_symmetric_relations_are_their_own_reverse():
    edges = {("n", "both", "n"): torch.tensor([[0, 1], [1, 0]]), ("n", "one", "n"): torch.tensor([[0], [1]])}
    stack = RelationStack.from_edges(edges, {"n": 2}, reverse=True)
    assert [r.name for r in stack.relations] == ["both", "one", "rev_one", "identity"]


def test_duplicate_edges_add_up_and_zero_weights_are_no_edges():
    edges = {("n", "r", "n"): (torch.tensor([[0, 0, 1], [1, 1, 0]]), torch.tensor([1.0, 2.0, 0.0]))}
    stack = RelationStack.from_edges(edges, {"n": 2})
    assert stack["r"].to_dense().tolist() == [[0, 0], [3, 0]]
    assert stack.row_normalized()["r"].to_dense().tolist() == [[1, 0], [1, 0]]
    assert RelationStack.from_edges(edges, {"n": 2}, binarize=True)["r"].to_dense().tolist() == [[0, 0], [2, 0]]


@settings(max_examples=40, deadline=None)
@given(stacks())
def test_row_normalisation(stack):
    for empty_rows in ("self", "zero"):
        normalized = stack.row_normalized(empty_rows)
        oracle = [row_normalized(stack[t].to_dense(), empty_rows) for t in range(len(stack))]
        for t, expected in enumerate(oracle):
            torch.testing.assert_close(normalized[t].to_dense(), expected)
            torch.testing.assert_close(normalized.row_normalized(empty_rows)[t].to_dense(), expected)


@settings(max_examples=40, deadline=None)
@given(stacks())
def test_proposition_1(stack):
    """Products of row-normalised matrices are row-normalised, so D of the product is I and that of A + I is 2I."""
    if not len(stack):
        return
    normalized = dense(stack.row_normalized())
    ones = torch.ones(stack.num_nodes, dtype=torch.float64)
    for left in normalized:
        for right in normalized:
            torch.testing.assert_close((left @ right).sum(1), ones)
            torch.testing.assert_close(row_normalized(left @ right), left @ right)
        torch.testing.assert_close((left + torch.eye(len(left)).to(left)).sum(1), 2 * ones)


@settings(max_examples=40, deadline=None)
@given(stacks())
def test_subset_is_the_submatrix(stack):
    stack = stack.row_normalized()
    g = torch.Generator().manual_seed(stack.num_nodes)
    chosen = torch.randperm(stack.num_nodes, generator=g)[: max(1, stack.num_nodes // 2)]
    small = stack.subset(chosen)
    types = torch.bucketize(chosen, torch.tensor(stack.node_counts).cumsum(0), right=True)
    order = chosen[types.argsort(stable=True)]
    assert small.num_nodes == len(chosen)
    assert small.relations == stack.relations
    for t in range(len(stack)):
        torch.testing.assert_close(small[t].to_dense(), stack[t].to_dense()[order][:, order])


def test_batch_of_everything_is_the_full_graph():
    stack = random_stack(11, num_types=3, num_relations=4).row_normalized()
    batch = stack.subset(torch.arange(stack.num_nodes))
    assert (batch.node_types, batch.node_counts) == (stack.node_types, stack.node_counts)
    h, filters = randn(stack.num_nodes, 2, 3), random_filters(2, len(stack))
    assert torch.equal(batch.propagate(h, filters), stack.propagate(h, filters))


def test_export_and_import_again():
    stack = random_stack(4, num_types=2, num_relations=3, identity=False)
    again = RelationStack.from_hetero(stack.to_hetero(), identity=False, dtype=torch.float64)
    torch.testing.assert_close(dense(again).sum(0), dense(stack).sum(0))


def test_precision_and_device():
    stack = random_stack(3)
    assert stack.dtype == torch.float64
    assert stack.to(torch.float32).dtype == torch.float32
    assert stack.to("cpu").device.type == "cpu"
    meta = stack.to("meta")
    assert meta.device.type == "meta"
    assert stack.device.type == "cpu"


EDGE = torch.tensor([[0], [1]])


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ({("n", "r", "n"): torch.tensor([0, 1])}, r"shape \[2, E\]"),
        ({("n", "r", "n"): torch.zeros(5, 2, dtype=torch.int64)}, r"Transpose it"),
        ({("n", "r", "n"): torch.rand(2, 3)}, "must contain integers"),
        ({("n", "r", "n"): torch.tensor([[0], [9]])}, r"target nodes must lie in 0 … 2, but edge_index\[1\] spans 9"),
        ({("n", "r", "n"): torch.tensor([[-1], [0]])}, "source nodes must lie in"),
        ({("n", "r", "n"): (EDGE, torch.tensor([float("nan")]))}, "NaN or infinite"),
        ({("n", "r", "n"): (EDGE, torch.tensor([float("inf")]))}, "NaN or infinite"),
        ({("n", "r", "n"): (EDGE, torch.ones(2))}, r"one number per edge, shape \[1\]"),
        ({("n", "r", "m"): EDGE}, 'node type "m", which has no node count'),
    ],
)
def test_bad_edges_are_refused(edges, message):
    with pytest.raises(InputError, match=message):
        RelationStack.from_edges(edges, {"n": 3})


def test_bad_requests_are_refused(library):
    stack = RelationStack.from_hetero(library)
    with pytest.raises(InputError, match='no relation "write"; did you mean'):
        stack["write"]
    with pytest.raises(InputError, match='no node type "papers"; did you mean "paper"'):
        stack.nodes_of("papers")
    with pytest.raises(InputError, match='"self" or "zero"'):
        stack.row_normalized("keep")
    with pytest.raises(InputError, match=r"shape \[C, 3\].*writes"):
        stack.propagate(torch.ones(6, 1, 1), torch.ones(1, 7))
    with pytest.raises(InputError, match=r"\[6, 1, d\], but got \(5, 1, 1\)"):
        stack.propagate(torch.ones(5, 1, 1), torch.ones(1, 3))
    with pytest.raises(InputError, match="distinct"):
        stack.subset(torch.tensor([1, 1]))
    with pytest.raises(InputError, match="nodes must lie in 0 … 5"):
        stack.subset(torch.tensor([6]))
    with pytest.raises(InputError, match="integers"):
        stack.subset(torch.tensor([0.5]))
    with pytest.raises(InputError, match="same nodes"):
        stack.join(random_stack(0))
    with pytest.raises(InputError, match="equal length"):
        stack.compose(stack.mix(torch.ones(1, 3)))
    with pytest.raises(InputError, match="at least one hop"):
        stack.hops(0)


def test_names_that_are_not_unique_ask_for_more():
    graph = {("a", "r", "b"): EDGE[:, :0], ("b", "r", "a"): EDGE[:, :0]}
    stack = RelationStack.from_edges(graph, {"a": 1, "b": 1})
    with pytest.raises(InputError, match='several relations are named "r": use one of "a-r-b", "b-r-a"'):
        stack["r"]
    assert stack["b-r-a"].relation.source == "b"


def test_negative_weights_have_no_degree():
    stack = RelationStack.from_edges({("n", "r", "n"): (EDGE, torch.tensor([-1.0]))}, {"n": 2})
    with pytest.raises(InputError, match="row normalisation needs edge weights ≥ 0, but the smallest is -1"):
        stack.row_normalized()


def test_graphs_without_counts_or_edges_are_refused():
    graph = HeteroData()
    graph["a"].y = torch.ones(2)
    graph["a", "r", "a"].edge_attr = torch.ones(1)
    graph["a"].num_nodes = 2
    with pytest.raises(InputError, match="has no edge_index"):
        RelationStack.from_hetero(graph)
    with pytest.raises(InputError, match="edge_index"):
        RelationStack.from_data(Data(num_nodes=2))


@settings(max_examples=40, deadline=None)
@given(stacks(), st.sampled_from(["self", "zero"]))
def test_symmetric_normalisation_divides_by_the_roots_of_both_degrees(stack, empty_rows):
    if not len(stack):
        return
    matrices = dense(stack)
    rows, cols = matrices.sum(2, keepdim=True), matrices.sum(1, keepdim=True)
    expected = matrices / (rows * cols).sqrt().clamp(min=1e-300)
    expected = torch.where(matrices > 0, expected, 0.0)
    if empty_rows == "self":
        expected = expected + torch.diag_embed((rows[..., 0] == 0).to(matrices))
    torch.testing.assert_close(dense(stack.symmetrically_normalized(empty_rows)), expected)


@settings(max_examples=40, deadline=None)
@given(stacks(), st.sampled_from(["self", "zero"]))
def test_logarithmic_normalisation_keeps_the_logarithm_of_the_sum(stack, empty_rows):
    if not len(stack):
        return
    sums, plain = dense(stack).sum(2, keepdim=True), dense(stack.row_normalized(empty_rows))
    factor = torch.where(sums > 0, sums.log1p(), 1.0)
    factor[len(stack) - stack.has_identity :] = 1.0  # the identity stays what it is
    torch.testing.assert_close(dense(stack.log_normalized(empty_rows)), plain * factor)


def test_a_node_with_a_million_neighbours_has_the_right_mean():
    """Sums of a million float32 numbers, against float64."""
    count = 10**6
    edges = {("leaf", "r", "hub"): torch.stack([torch.arange(count), torch.zeros(count, dtype=torch.int64)])}
    stack = RelationStack.from_edges(edges, {"leaf": count, "hub": 1}).row_normalized()
    values = torch.rand(count + 1, generator=torch.Generator().manual_seed(0))
    filters = torch.zeros(1, len(stack))
    filters[0, 0] = 1
    mean = stack.propagate(values[:, None, None], filters)[count, 0, 0]
    assert abs(float(mean) - float(values[:count].double().mean())) < 1e-4  # 8e-5 of it: a plain float32 sum
