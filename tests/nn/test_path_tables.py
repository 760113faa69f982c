"""Rows whose meta-path features are computed once give the same logits and gradients as hops over edges."""

from types import SimpleNamespace

import pytest
import torch
from graphs import randn, random_stack, stacks
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgtn import GTN, Config, FastGTN, Features, InputError, NodeClassifier, NonLocalOptions, RelationStack, load
from fastgtn.nn.inputs.features import FeatureBlock
from fastgtn.nn.path_tables import tables as unrolling
from fastgtn.nn.path_tables.tables import Unrolling
from fastgtn.relations.paths.trie import TooManyPathsError
from fastgtn.training.build import Inputs

EMPTY_ROWS = ["self", "zero", "raw"]


def seen_by_types(stack: RelationStack, seed: int = 0) -> Features:
    """Each node type has features of another width; those of every second type are sparse."""
    blocks = []
    for number, name in enumerate(stack.node_types):
        nodes = stack.nodes_of(name)
        x = randn(len(nodes), 2 + number, seed=seed + number)
        if number % 2:
            x = x * (x > 0)
        matrix = Features.of(x.to_sparse_csr() if number % 2 else x).blocks[0].matrix
        blocks.append(FeatureBlock(name, torch.arange(nodes.start, nodes.stop), None, matrix, x.size(1)))
    return Features(tuple(blocks), stack.num_nodes)


def prepared(stack: RelationStack, empty_rows: str) -> RelationStack:
    return stack if empty_rows == "raw" else stack.row_normalized(empty_rows)


def both_ways(backbone, stack, features, rows, **options):
    """Logits of some rows, and the gradients of every parameter, by hops and unrolled."""
    model = NodeClassifier(backbone, 3, dropout=0.0).double()
    hops = backbone.plan(stack, rows)
    unrolled = Unrolling.of(backbone, stack, rows, features).compute(**options)
    for graph in (hops, unrolled):
        logits = model(features.select(graph.inputs), graph)
        probe = randn(*logits.shape, seed=9)
        yield logits, torch.autograd.grad((logits * probe).sum(), list(model.parameters()))


def assert_same(backbone, stack, features, rows, **options):
    (logits, gradients), (unrolled, unrolled_gradients) = both_ways(backbone, stack, features, rows, **options)
    torch.testing.assert_close(unrolled, logits, rtol=1e-10, atol=1e-10)
    for gradient, other in zip(gradients, unrolled_gradients, strict=True):
        torch.testing.assert_close(other, gradient, rtol=1e-10, atol=1e-10)


def some_rows(stack: RelationStack, seed: int) -> torch.Tensor:
    count = 1 + seed % stack.num_nodes
    return torch.randperm(stack.num_nodes, generator=torch.Generator().manual_seed(seed))[:count]


@settings(max_examples=150, deadline=None)
@given(stacks(), st.integers(1, 4), st.sampled_from(EMPTY_ROWS), st.booleans(), st.integers(0, 1000))
def test_fast_gtn_is_the_same_on_any_graph(stack, K, empty_rows, by_types, seed):
    """Isolated nodes, nodes of the right type without edges, empty relations, one node, weights, no identity."""
    if not len(stack):
        return
    stack = prepared(stack, empty_rows)
    features = seen_by_types(stack) if by_types else Features.of(randn(stack.num_nodes, 3))
    torch.manual_seed(seed)
    model = FastGTN(
        features, 4, stack.relations, dropout=0.0, path_length=K, gamma=0.3, bias=seed % 2 == 0, activation="tanh"
    )
    assert_same(model, stack, features, some_rows(stack, seed))


@settings(max_examples=150, deadline=None)
@given(stacks(), st.integers(1, 4), st.sampled_from(EMPTY_ROWS), st.booleans(), st.integers(0, 1000))
def test_gtn_is_the_same_on_any_graph(stack, K, empty_rows, by_types, seed):
    """The degrees of GTN unroll alike, with and without identity, for one filter too."""
    if not len(stack):
        return
    stack = prepared(stack, empty_rows)
    features = seen_by_types(stack) if by_types else Features.of(randn(stack.num_nodes, 3))
    torch.manual_seed(seed)
    gamma = [0.0, 0.4, 1.0][seed % 3]
    model = GTN(
        features, 4, stack.relations, dropout=0.0, path_length=K, gamma=gamma, bias=seed % 2 == 0, activation="tanh"
    )
    assert_same(model, stack, features, some_rows(stack, seed))


def test_filters_of_any_sign_unroll_too():
    stack = random_stack(3, num_types=2, num_relations=3).row_normalized()
    features = Features.of(randn(stack.num_nodes, 3))
    model = FastGTN(features, 4, stack.relations, dropout=0.0, path_length=3)
    model.layers[0].filters.fix(randn(3, 2, len(stack)))
    rows = torch.arange(stack.num_nodes)
    unrolled = Unrolling.of(model.double(), stack, rows, features).compute()
    torch.testing.assert_close(model(features, unrolled), model(features, stack), rtol=1e-10, atol=1e-10)


def test_long_paths_on_mixed_degrees_stay_in_range():
    """Path weights from 1e-20 to 1e60 overflow float32; means over paths do not."""
    weight = 10.0 ** torch.tensor([15.0, -5.0, 10.0, 0.0], dtype=torch.float64)
    edges = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 2]])
    stack = RelationStack.from_edges({("n", "r", "n"): (edges, weight)}, {"n": 3}, dtype=torch.float32)
    features = Features.of(randn(3, 4).float())
    model = GTN(features, 4, stack.relations, dropout=0.0, path_length=4)
    rows = torch.arange(3)
    unrolled = Unrolling.of(model, stack, rows, features).compute()
    out, expected = model(features, unrolled), model(features, stack)
    assert torch.isfinite(out).all()
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


def test_one_pattern_of_self_loops_gives_one_table_per_meta_path():
    """Every author has papers, every paper authors: A, AP, APA, APAP are all that two types allow."""
    edges = torch.tensor([[0, 0, 1, 2], [0, 1, 1, 2]])
    stack = RelationStack.from_edges(
        {("author", "writes", "paper"): edges, ("paper", "by", "author"): edges.flip(0)},
        {"author": 3, "paper": 3},
        dtype=torch.float64,
    )
    features = Features.of(randn(6, 2))
    for prepared_stack, kind in ((stack.row_normalized(), FastGTN), (stack, GTN)):
        model = kind(features, 4, stack.relations, dropout=0.0, path_length=3)
        found = Unrolling.of(model, prepared_stack, torch.arange(3), features)
        assert found.num_paths == 3  # and the empty path, which needs no table
        assert found.table_size == 3 * 3 * 2


def test_paths_without_edges_have_no_table():
    stack = RelationStack.from_edges({("a", "r", "b"): torch.tensor([[0], [0]])}, {"a": 2, "b": 2}, dtype=torch.float64)
    features = Features.of(randn(4, 2))
    model = FastGTN(features, 4, stack.relations, dropout=0.0, path_length=4)
    found = Unrolling.of(model, stack.row_normalized(), torch.tensor([0, 3]), features)  # a node of a, the other of b
    assert found.num_paths == 0
    assert_same(model, stack.row_normalized(), features, torch.tensor([0, 3]))


def test_tables_in_a_file_are_the_same_bits_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stack = random_stack(5, num_types=2, num_relations=3, max_nodes=9, max_edges=20).row_normalized()
    features = seen_by_types(stack)
    model = FastGTN(features, 4, stack.relations, dropout=0.0, path_length=3)
    found = Unrolling.of(model, stack, torch.arange(stack.num_nodes), features)
    inside, outside = found.compute(), found.compute(on_disk=True)
    assert len(inside.blocks) == 2
    for one, other in zip(inside.blocks, outside.blocks, strict=True):
        assert torch.equal(one.tables, other.tables)
    assert list(tmp_path.iterdir()) == []
    assert_same(model, stack, features, torch.arange(stack.num_nodes), on_disk=True)


def test_a_full_disk_is_refused(monkeypatch):
    stack = random_stack(5).row_normalized()
    features = Features.of(randn(stack.num_nodes, 2))
    model = FastGTN(features, 4, stack.relations, dropout=0.0)
    found = Unrolling.of(model, stack, torch.arange(stack.num_nodes), features)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(InputError, match=r"GB left\. Set TMPDIR"):
        found.compute(on_disk=True)


def test_features_are_computed_some_columns_at_a_time(monkeypatch):
    stack = random_stack(7, max_nodes=9, max_edges=20).row_normalized()
    features = seen_by_types(stack)
    model = FastGTN(features, 4, stack.relations, dropout=0.0, path_length=3)
    found = Unrolling.of(model, stack, torch.arange(stack.num_nodes), features)
    whole = found.compute()
    monkeypatch.setattr(unrolling, "WORK_BYTES", 1.0)
    for one, other in zip(whole.blocks, found.compute().blocks, strict=True):
        torch.testing.assert_close(one.tables, other.tables, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 2}, "the model has 2 layers: set model.num_layers = 1"),
        ({"dropout": 0.5}, "dropout 0.5 changes the features in every step: set model.dropout = 0"),
        ({"non_local": NonLocalOptions()}, "set model.non_local.enabled = false"),
        ({"encoder": "relu"}, 'a ReLU comes before the hops: set model.encoder = "linear"'),
    ],
)
def test_what_is_not_linear_is_refused(options, message):
    stack = random_stack(1)
    features = Features.of(randn(stack.num_nodes, 2))
    model = FastGTN(features, 4, stack.relations, **{"dropout": 0.0, **options})
    with pytest.raises(InputError, match=message):
        Unrolling.of(model, stack, torch.tensor([0]), features)


def test_embedded_types_negative_weights_and_too_many_paths_are_refused():
    stack = random_stack(1)
    embedded = Features((FeatureBlock("t0", None, None, None, stack.num_nodes),), stack.num_nodes)
    with pytest.raises(InputError, match=r"without features learn embeddings \(t0\): give them features"):
        Unrolling.of(FastGTN(embedded, 4, stack.relations, dropout=0.0), stack, torch.tensor([0]), embedded)
    loops = torch.tensor([[0], [0]])
    many = RelationStack.from_edges({("n", f"r{i}", "n"): loops for i in range(30)}, {"n": 1}, dtype=torch.float64)
    features = Features.of(randn(1, 2))
    with pytest.raises(TooManyPathsError, match="more than 20,000 paths to unroll: use fewer hops"):
        Unrolling.of(
            FastGTN(features, 4, many.relations, dropout=0.0, path_length=4), many, torch.tensor([0]), features
        )
    negative = RelationStack.from_edges({("n", "r", "n"): (loops, torch.tensor([-1.0]))}, {"n": 1})
    with pytest.raises(InputError, match="GTN divides by degrees, so it needs edge weights ≥ 0"):
        Unrolling.of(GTN(features, 4, negative.relations, dropout=0.0), negative, torch.tensor([0]), features)


def test_rows_of_another_model_or_without_their_features_are_refused():
    stack = random_stack(2, max_nodes=9, max_edges=20)
    features = Features.of(randn(stack.num_nodes, 2))
    rows = torch.arange(2)
    model = FastGTN(features, 4, stack.relations, dropout=0.0).double()
    unrolled = Unrolling.of(model, stack, rows, features).compute()
    with pytest.raises(InputError, match=r"there are \d+ feature rows for 2 unrolled rows"):
        model(features, unrolled)
    mine = features.select(rows)
    for other in (
        GTN(features, 4, stack.relations, dropout=0.0),
        FastGTN(features, 4, stack.relations, dropout=0.0, path_length=3),
    ):
        with pytest.raises(InputError, match="unrolled for another model"):
            other.double()(mine, unrolled)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "K", "most"), [("dblp", 4, 9), ("acm", 3, 9), ("imdb", 3, 8)])
@pytest.mark.parametrize("kind", ["fast_gtn", "gtn"])
def test_real_graphs_have_few_paths_and_the_same_logits(real_graphs, name, K, most, kind):
    graph, task = load(name, data_dir=real_graphs)
    config = Config.of(
        {"graph": {"normalize": "none" if kind == "gtn" else "row"}},
        {"model": {"name": kind, "path_length": K, "num_channels": 2, "dropout": 0.0, "encoder": "linear"}},
    )
    inputs = Inputs.of(graph, config)
    stack, features = inputs.stack.to(torch.float64), inputs.features.to(torch.float64)
    torch.manual_seed(0)
    backbone = config.model.build(features, stack.relations)
    rows = inputs.rows(task.target, task.train.nodes)
    assert 0 < Unrolling.of(backbone, stack, rows, features).num_paths <= most
    assert_same(backbone, stack, features, rows)
