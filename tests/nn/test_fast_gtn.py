"""FastGTN computes its formula, for any input, and its special cases are the layers they claim to be."""

import pytest
import torch
import torch.nn.functional as F
from graphs import randn, random_stack, stacks
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import dense, fast_gtn, non_local
from torch_geometric.nn import GCNConv, MixHopConv, RGCNConv

from fastgtn import GTN, FastGTN, InputError, NodeClassifier, NonLocalOptions, RelationStack
from fastgtn.nn.conversions import from_gcn, from_mixhop, from_rgcn
from fastgtn.nn.non_local import NON_LOCAL

PAPER = {"own": "shared", "rescale": False}  # own features and messages share one map


@settings(max_examples=40, deadline=None)
@given(
    stacks(identity=True),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from(["linear", "relu"]),
)
def test_one_layer_is_its_formula(stack, K, C, gamma, encoder):
    stack = stack.row_normalized()
    options = {"path_length": K, "num_channels": C, "gamma": gamma, "encoder": encoder, "aggregate": "none"}
    model = FastGTN(4, 3, stack.relations, dropout=0.0, **PAPER, **options).double()
    x = randn(stack.num_nodes, 4)
    z = x @ model.input.weights[0]
    if encoder == "relu":
        assert z.shape == (stack.num_nodes, 3)  # the width of the representation, then one map per channel
        z = torch.relu(z) @ model.second.weight.T
    expected = torch.relu(fast_gtn(dense(stack), model.hop_filters()[0](), z.unflatten(1, (C, 3)), gamma)).flatten(1)
    torch.testing.assert_close(model(x, stack), expected)


def test_two_layers_and_aggregation():
    stack = random_stack(3).row_normalized()
    model = FastGTN(
        4, 3, stack.relations, dropout=0.0, num_layers=2, num_channels=2, aggregate="concat", **PAPER
    ).double()
    x = randn(stack.num_nodes, 4)
    z = x @ model.input.weights[0]
    for number, layer in enumerate(model.layers):
        z = z if not number else z @ model.linears[0].weight.T
        h = torch.relu(fast_gtn(dense(stack), layer.filters(), z.unflatten(1, (2, 3)), 0.5)).flatten(1)
        z = torch.relu(h @ layer.aggregate.linear.weight.T + layer.aggregate.linear.bias)
    torch.testing.assert_close(model(x, stack), z)


@pytest.mark.parametrize("cls", [FastGTN, GTN])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("encoder", ["linear", "relu"])
def test_pruned_rows_equal_full_rows(cls, layers, encoder):
    stack = random_stack(21, num_types=3, num_relations=5, max_nodes=9, max_edges=12)
    stack = stack.row_normalized() if cls is FastGTN else stack
    model = NodeClassifier(
        cls(4, 3, stack.relations, dropout=0.0, num_layers=layers, encoder=encoder), 5, dropout=0.0
    ).double()
    x, rows = randn(stack.num_nodes, 4), torch.tensor([3, 0])
    plan = stack.hops(model.backbone.num_hops, rows)
    pruned, full = model(x[plan.inputs], plan), model(x, stack)[rows]
    torch.testing.assert_close(pruned, full)
    mine, theirs = (torch.autograd.grad(o.square().sum(), list(model.parameters())) for o in (pruned, full))
    torch.testing.assert_close(mine, theirs)


def normalised_graph(n: int = 12) -> tuple[torch.Tensor, torch.Tensor, RelationStack]:
    """A graph without self-loops in which every node has in-edges of total weight one."""
    g = torch.Generator().manual_seed(0)
    pairs = [
        (j, i)
        for i in range(n)
        for j in range(n)
        if i != j and (float(torch.rand(1, generator=g)) < 0.3 or j == (i + 1) % n)
    ]
    edge_index = torch.tensor(pairs).T
    stack = RelationStack.from_edges({("n", "r", "n"): edge_index}, {"n": n}, dtype=torch.float64).row_normalized()
    rows, cols, values = stack["r"].coordinates()
    return torch.stack([cols, rows]), values, stack


def test_gcn_is_a_special_case():
    edge_index, weight, stack = normalised_graph()
    conv = GCNConv(5, 4).double()
    torch.nn.init.normal_(conv.bias)
    x = randn(12, 5)
    torch.testing.assert_close(from_gcn(conv, stack.relations)(x, stack), conv(x, edge_index, weight))


@pytest.mark.parametrize("powers", [[0, 1, 2], [1, 3], [0]])
def test_mixhop_is_a_special_case(powers):
    edge_index, weight, stack = normalised_graph()
    conv = MixHopConv(5, 4, powers=powers).double()
    torch.nn.init.normal_(conv.bias)
    x = randn(12, 5)
    torch.testing.assert_close(from_mixhop(conv, stack.relations)(x, stack), conv(x, edge_index, weight))


@pytest.mark.parametrize("bases", [None, 2])
@pytest.mark.parametrize("root", [True, False])
def test_rgcn_is_a_special_case(bases, root):
    stack = random_stack(9, num_types=1, num_relations=3, max_nodes=9, max_edges=20, weighted=False)
    conv = RGCNConv(5, 4, num_relations=3, num_bases=bases, root_weight=root).double()
    torch.nn.init.normal_(conv.bias)
    parts = [stack[t].coordinates() for t in range(3)]
    # an edge given twice counts twice for both
    times = [p.values.long() for p in parts]
    edge_index = torch.cat(
        [torch.stack([p.cols, p.rows]).repeat_interleave(n, 1) for p, n in zip(parts, times, strict=True)], 1
    )
    edge_type = torch.cat([torch.full((int(n.sum()),), t) for t, n in enumerate(times)])
    x = randn(stack.num_nodes, 5)
    model = from_rgcn(conv, stack.relations)
    torch.testing.assert_close(model(x, stack.row_normalized("zero")), conv(x, edge_index, edge_type))


def test_conversions_refuse_other_stacks():
    stack = random_stack(9, num_types=1, num_relations=3)
    with pytest.raises(InputError, match="one relation and the identity"):
        from_gcn(GCNConv(2, 2), stack.relations)
    with pytest.raises(InputError, match="one relation and the identity"):
        from_mixhop(MixHopConv(2, 2), stack.relations)
    with pytest.raises(InputError, match="must have 2 and the identity"):
        from_rgcn(RGCNConv(2, 2, num_relations=2), stack.relations)
    with pytest.raises(InputError, match="mean aggregation"):
        from_rgcn(RGCNConv(2, 2, num_relations=3, aggr="add"), stack.relations)


def test_learned_graphs_are_the_products_of_the_hops():
    stack = random_stack(5, num_types=2, num_relations=3, max_edges=12).row_normalized()
    model = FastGTN(
        4, 4, stack.relations, dropout=0.0, path_length=3, gamma=0.0, aggregate="none", activation="none"
    ).double()
    graphs = model.learned_graphs(stack)
    x = randn(stack.num_nodes, 4)
    z = (x @ model.input.weights[0]).unflatten(1, (2, 4))
    expected = torch.stack([graphs[c] @ z[:, c] for c in range(2)], 1).flatten(1)
    torch.testing.assert_close(model(x, stack), expected)
    some = dense(model.learned_graphs(stack, top=1))
    torch.testing.assert_close(some.amax(-1), dense(graphs).amax(-1))
    with pytest.raises(InputError, match="depends on the features"):
        FastGTN(4, 4, stack.relations, dropout=0.0, non_local=NonLocalOptions()).learned_graphs(stack)


@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("final_relu", [True, False])
def test_non_local_hops_equal_the_dense_formula(exclude_self, final_relu):
    stack = random_stack(13, num_types=2, num_relations=2, max_nodes=9).row_normalized()
    options = NonLocalOptions(
        neighbors=3, hidden=(8, 6), exclude_self=exclude_self, final_relu=final_relu, init_logit=0.5
    )
    torch.manual_seed(1)
    model = FastGTN(
        4, 3, stack.relations, dropout=0.0, path_length=2, aggregate="none", non_local=options, **PAPER
    ).double()
    (layer,) = model.typed_layers()
    assert layer.filters.relations[-2:] == (NON_LOCAL, stack.relations[-1])
    assert (layer.filters.logits[:, :, -2] == 0.5).all()
    x = randn(stack.num_nodes, 4)
    z = h = (x @ model.input.weights[0]).unflatten(1, (2, 3))
    matrices, filters = dense(stack), layer.filters()
    for k in (1, 0):
        similar = non_local(layer.non_local[k].project(h.mean(1)), 3, exclude_self=exclude_self)
        joined = torch.cat([matrices[:-1], similar[None], matrices[-1:]])
        h = torch.einsum("ct,tij,jcd->icd", filters[k], joined, h)
    expected = torch.relu(0.2 * z + 0.8 * h).flatten(1)
    out = model(x, stack)
    torch.testing.assert_close(out, expected)
    parameters = list(model.parameters())
    mine, theirs = (torch.autograd.grad(o.square().sum(), parameters, allow_unused=True) for o in (out, expected))
    torch.testing.assert_close(mine, theirs)
    assert all(
        p.abs().sum() > 0
        for name, p in zip([n for n, _ in model.named_parameters()], mine, strict=True)
        if "project.2" in name
    )


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("exclude_self", [True, False])
def test_some_rows_of_a_non_local_model_are_those_of_all(num_layers, exclude_self):
    stack = random_stack(13, num_types=2, num_relations=2, max_nodes=30).row_normalized()
    options = NonLocalOptions(neighbors=3, hidden=(8, 6), exclude_self=exclude_self)
    torch.manual_seed(1)
    model = FastGTN(
        4, 3, stack.relations, dropout=0.0, path_length=3, num_layers=num_layers, non_local=options
    ).double()
    with torch.no_grad():  # a third of the similarities are zero, so that many rows choose among ties
        for layer in model.typed_layers():
            for step in layer.non_local:
                step.project[2].bias -= 0.3
    x = randn(stack.num_nodes, 4)
    rows = torch.randperm(stack.num_nodes, generator=torch.Generator().manual_seed(0))[:5]
    plan = model.plan(stack, rows)
    assert [hop.num_rows for hop in plan][:2] == [5, stack.num_nodes]
    out, expected = model(x[plan.inputs], plan), model(x, stack)[rows]
    torch.testing.assert_close(out, expected)
    parameters = list(model.parameters())
    mine, theirs = (torch.autograd.grad(o.square().sum(), parameters, allow_unused=True) for o in (out, expected))
    torch.testing.assert_close(mine, theirs)


def test_non_local_limits():
    stack = random_stack(13).row_normalized()
    with pytest.warns(UserWarning, match="cannot learn"):
        FastGTN(4, 3, stack.relations, dropout=0.0, non_local=NonLocalOptions(neighbors=1))
    model = FastGTN(4, 3, stack.relations, dropout=0.0, non_local=NonLocalOptions())
    assert model.sees_all_nodes
    plan = stack.hops(model.num_hops, torch.tensor([0]))
    with pytest.raises(InputError, match="non-local operations need all nodes"):
        model(torch.ones(plan.num_inputs, 4), plan)
    one = RelationStack.from_edges({}, {"n": 1})
    lonely = FastGTN(4, 3, one.relations, dropout=0.0, non_local=NonLocalOptions(exclude_self=True))
    assert lonely(torch.ones(1, 4), one).shape == (1, 3)


@pytest.mark.parametrize("cls", [FastGTN, GTN])
def test_filters_move_to_the_right_relation(cls):
    """Labels are the features of the one neighbour by `right`; `wrong` edges go anywhere."""
    g = torch.Generator().manual_seed(0)
    n = 200
    right = torch.stack([torch.randperm(n, generator=g), torch.arange(n)])
    wrong = torch.stack([torch.randint(n, (n,), generator=g), torch.arange(n)])
    x = torch.randn(n, 2, generator=g)
    y = torch.empty(n, dtype=torch.int64)
    y[right[1]] = (x[right[0], 0] > 0).long()
    edges = {("n", "wrong", "n"): wrong, ("n", "right", "n"): right}
    stack = RelationStack.from_edges(edges, {"n": n})
    stack = stack.row_normalized() if cls is FastGTN else stack
    torch.manual_seed(0)
    model = NodeClassifier(cls(2, 8, stack.relations, dropout=0.0, path_length=1, num_channels=1), 2, dropout=0.0)
    start = model.backbone.hop_filters()[0]().detach().clone()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(model(x, stack), y).backward()
        assert model.backbone.hop_filters()[0].logits.grad.abs().sum() > 0
        optimizer.step()
    end = model.backbone.hop_filters()[0]().detach()
    assert (end - start).abs().max() > 0.3
    assert (end[0, :, 1] > 0.7).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path_length": 0}, "path_length and num_channels must be at least 1"),
        ({"num_channels": 0}, "path_length and num_channels must be at least 1"),
        ({"num_layers": 0}, "num_layers must be at least 1"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\)"),
        ({"gamma": -0.1}, "gamma"),
        ({"aggregate": "men"}, 'no aggregation "men"; did you mean "mean"'),
        ({"activation": "rel"}, 'no activation "rel"; did you mean "relu"'),
    ],
)
@pytest.mark.parametrize("cls", [FastGTN, GTN])
def test_bad_hyper_parameters_are_refused(cls, options, message):
    with pytest.raises(InputError, match=message):
        cls(3, 2, random_stack(0).relations, **options)


@pytest.mark.parametrize("cls", [FastGTN, GTN])
def test_bad_inputs_are_refused(cls):
    stack = random_stack(0)
    model = cls(3, 2, stack.relations, dropout=0.0).double()
    with pytest.raises(InputError, match="there are 1 feature rows for"):
        model(randn(1, 3), stack)
    with pytest.raises(InputError, match=r"built for features \(shared 3\), but got \(shared 4\)"):
        model(randn(stack.num_nodes, 4), stack)
    with pytest.raises(InputError, match="NaN or infinite"):
        model(torch.full((stack.num_nodes, 3), float("nan")), stack)
    with pytest.raises(InputError, match="built for the relations"):
        model(randn(stack.num_nodes, 3), random_stack(0, identity=False))
    with pytest.raises(InputError, match="takes 2 hops, but the plan has 1"):
        model(randn(stack.num_nodes, 3), stack.hops(1))
    with pytest.raises(InputError, match=r"features.select\(hops.inputs\)"):
        model(randn(99, 3), stack.hops(2, torch.tensor([0])))
    with pytest.raises(InputError, match="in_features must be at least 1"):
        cls(0, 2, stack.relations)
    with pytest.raises(InputError, match="at least one relation"):
        cls(3, 2, [])
    with pytest.raises(InputError, match="num_classes must be at least 1"):
        NodeClassifier(model, 0)
    with pytest.raises(InputError, match=r"filters must have shape \(2, 2, 4\)"):
        model.hop_filters()[0].fix(torch.ones(1, 1, 1))
