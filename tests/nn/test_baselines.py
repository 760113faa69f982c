"""Each baseline gives what PyG's own convolutions give on a hand-made graph, only faster."""

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from graphs import randn
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCN2Conv, GCNConv, HANConv, HGTConv, JumpingKnowledge, MixHopConv, RGCNConv

from fastgtn.errors import InputError
from fastgtn.nn import Backbone, Features
from fastgtn.nn.baselines import GAT, GCN, GCNII, HAN, HGT, MLP, RGCN, JKNet, MixHop, Node2Vec, WalkOptions
from fastgtn.nn.baselines.parts.edge_list import EdgeList
from fastgtn.nn.baselines.parts.predefined import metapaths_of, neighbors_along
from fastgtn.nn.baselines.parts.random_walks import WalkGraph, random_walks, skip_gram
from fastgtn.nn.inputs.encoders import Encoder
from fastgtn.nn.inputs.features import FeatureBlock
from fastgtn.relations import Relation, RelationStack
from fastgtn.relations.kernels.attention import attend, edge_dots, edge_sums

WRITES, WRITTEN = Relation("author", "AP", "paper"), Relation("paper", "PA", "author")
CITES = Relation("paper", "PP", "paper")


@pytest.fixture
def stack() -> RelationStack:
    """Four authors, five papers; paper 4 has no author, one paper cites itself, author 3 wrote nothing."""
    wrote = torch.tensor([[0, 0, 1, 2, 2], [0, 1, 1, 2, 3]])
    cites = torch.tensor([[0, 2, 4, 3, 3], [1, 1, 0, 3, 1]])
    edges = {WRITES: wrote, WRITTEN: wrote.flip(0), CITES: cites}
    return RelationStack.from_edges(edges, {"author": 4, "paper": 5}, identity=False, dtype=torch.float64)


@pytest.fixture
def x() -> Tensor:
    return randn(9, 3)


def union(stack: RelationStack) -> Tensor:
    """All edges [from; to], written by hand from dense matrices."""
    return sum(stack[t].to_dense() for t in range(len(stack))).T.nonzero().T


def built(model: Backbone) -> Backbone:
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def copied(convolution: nn.Module, source: nn.Module) -> nn.Module:
    convolution.double().load_state_dict(source.state_dict())
    return convolution


def encoded(model: Backbone, x: Tensor) -> Tensor:
    return x @ model.input.weights[0]


def test_gcn_is_the_dense_formula(stack: RelationStack, x: Tensor) -> None:
    model = built(GCN(3, 4))
    adjacency = sum(stack[t].to_dense() for t in range(len(stack)))
    adjacency += torch.diag((adjacency.diagonal() == 0).double())
    scale = adjacency.sum(1).rsqrt()
    a = scale[:, None] * adjacency * scale
    z = encoded(model, x)
    for conv in model.convs:
        z = torch.relu(a @ z @ conv.lin.weight.T + conv.bias)
    torch.testing.assert_close(model(x, stack), z)


def test_gcn_and_jk_net_and_mixhop_and_gcnii_equal_pyg(stack: RelationStack, x: Tensor) -> None:
    edges = union(stack)
    gcn, jump = built(GCN(3, 4, encoder="relu", residual=True)), built(JKNet(3, 4, jump="max"))
    z = torch.relu(encoded(gcn, x))
    for conv in gcn.convs:
        z = z + torch.relu(copied(GCNConv(4, 4), conv)(z, edges))
    torch.testing.assert_close(gcn(x, stack), z)
    z, layers = encoded(jump, x), []
    for conv in jump.convs:
        z = torch.relu(copied(GCNConv(4, 4), conv)(z, edges))
        layers.append(z)
    torch.testing.assert_close(jump(x, stack), JumpingKnowledge("max")(layers))
    mix, deep = built(MixHop(3, 4, powers=(0, 2))), built(GCNII(3, 4, num_layers=3, shared_weights=False))
    z = torch.relu(copied(MixHopConv(4, 4, [0, 2]), mix.convs[0])(encoded(mix, x), edges))
    z = torch.relu(copied(MixHopConv(8, 4, [0, 2]), mix.convs[1])(z, edges))
    torch.testing.assert_close(mix(x, stack), z)
    z = first = torch.relu(encoded(deep, x))
    for number, conv in enumerate(deep.convs):
        plain = GCN2Conv(4, 0.1, 0.5, number + 1, shared_weights=False)
        z = torch.relu(copied(plain, conv)(z, first, edges))
    torch.testing.assert_close(deep(x, stack), z)


@pytest.mark.parametrize("residual", [False, True])
def test_gat_equals_pyg(stack: RelationStack, x: Tensor, residual: bool) -> None:
    model = built(GAT(3, 4, heads=2, residual=residual))
    z = encoded(model, x)
    for conv in model.convs:
        h = F.elu(copied(GATConv(4, 2, 2), conv)(z, union(stack)))
        z = h + z if residual else h
    torch.testing.assert_close(model(x, stack), z)


@pytest.mark.parametrize(("bases", "encoder"), [(None, "linear"), (2, "linear"), (2, "relu")])
def test_rgcn_equals_pyg(stack: RelationStack, x: Tensor, bases: int | None, encoder: Encoder) -> None:
    model = built(RGCN(3, 4, stack.relations, num_bases=bases, encoder=encoder)).float()
    pairs = [stack[t].to_dense().T.nonzero().T for t in range(3)]
    kind = torch.repeat_interleave(torch.arange(3), torch.tensor([p.size(1) for p in pairs]))
    z = encoded(model, x.float())
    z = torch.relu(z) if encoder == "relu" else z
    for conv in model.convs:  # RGCNConv of PyG works in float32 only
        plain = RGCNConv(4, 4, 3, num_bases=bases)
        plain.load_state_dict(conv.state_dict())
        z = torch.relu(plain(z, torch.cat(pairs, 1), kind))
    torch.testing.assert_close(model(x.float(), stack.to(torch.float32)), z)


def test_hgt_equals_pyg(stack: RelationStack, x: Tensor) -> None:
    model = built(HGT(3, 4, stack.relations, heads=2))
    names = [("0", "0", "1"), ("1", "1", "0"), ("1", "2", "1")]
    offsets = {"0": 0, "1": 4}
    edges = {
        name: stack[t].to_dense().T.nonzero().T - torch.tensor([[offsets[name[0]]], [offsets[name[2]]]])
        for t, name in enumerate(names)
    }
    z = torch.relu(encoded(model, x))
    plains = [copied(HGTConv(4, 4, (["0", "1"], names), 2), conv) for conv in model.convs]
    first = plains[0]
    for plain in plains:
        out = plain({"0": z[:4], "1": z[4:]}, edges)
        z = torch.cat([out["0"], out["1"]])
    fused = model(x, stack)
    torch.testing.assert_close(fused, z)
    weights = dict(model.convs[0].named_parameters())
    plain_weights = dict(first.named_parameters())
    probe = torch.randn_like(z)
    for name in ("k_rel.weight", "v_rel.weight"):
        mine, theirs = (
            torch.autograd.grad((y * probe).sum(), w[name], retain_graph=True)[0]
            for y, w in ((fused, weights), (z, plain_weights))
        )
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("encoder", ["linear", "relu"])
def test_han_equals_pyg_on_boolean_products(stack: RelationStack, x: Tensor, encoder: Encoder) -> None:
    paths = ["APA", "AP[PP]PA"]
    model = built(HAN(3, 4, stack.relations, metapaths=paths, heads=2, max_neighbors=0, encoder=encoder))
    wrote, cites = stack[0].to_dense()[4:, :4], stack[2].to_dense()[4:, 4:]
    dense = [wrote.T @ wrote, wrote.T @ cites @ wrote]
    # the message goes from the far end of a path to its near end, and each node is its own neighbour
    edges = [((a > 0) | torch.eye(4, dtype=torch.bool)).T.nonzero().T for a in dense]
    names = [("0", str(n), "0") for n in range(2)]
    plain = copied(HANConv(4, 4, (["0"], names), 2), model.convs[0])
    z = torch.relu(encoded(model, x)) if encoder == "relu" else encoded(model, x)
    expected = plain({"0": z[:4]}, dict(zip(names, edges, strict=True)))["0"]
    torch.testing.assert_close(model(x, stack)[:4], expected)
    assert not model(x, stack)[4:].any()  # papers have no path


def test_of_many_neighbours_those_with_most_paths_stay() -> None:
    papers = torch.tensor([[0, 0, 0, 1, 1, 2, 3], [0, 1, 2, 0, 1, 0, 3]])  # author 1 shares two papers with author 0
    stack = RelationStack.from_edges({WRITES: papers, WRITTEN: papers.flip(0)}, {"author": 4, "paper": 4})
    path = metapaths_of(stack.relations, ["APA"])[0]
    edges = neighbors_along(stack, path, torch.arange(4), 1)
    into = {i: set(edges[0, edges[1] == i].tolist()) for i in range(4)}
    assert (into[0], into[1], into[3]) == ({0, 1}, {1, 0}, {3})
    assert len(into[2]) == 2
    assert neighbors_along(stack, path, torch.arange(4), 0).size(1) == 4 + 6
    # which of equals are kept does not depend on the order in which nodes are asked for
    turned = neighbors_along(stack, path, torch.tensor([3, 2, 1, 0]), 1)
    assert {(3 - a, 3 - b) for a, b in turned.T.tolist()} == set(map(tuple, edges.T.tolist()))


def test_without_words_han_takes_every_way_out_and_back(stack: RelationStack) -> None:
    paths = metapaths_of(stack.relations)
    assert {path.types for path in paths} == {("author", "paper", "author"), ("paper", "author", "paper")}
    assert metapaths_of(stack.relations, [["PA", "AP"]]) == metapaths_of(stack.relations, ["APA"])


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("AXA", r'"AXA" cannot be read: write the letters of node types \(A author, P paper\)'),
        ("AP", 'must end where it begins, but "AP" leads from author to paper'),
        ("AA", "goes from author to author: no relation connects them in this direction"),
        ("A[wrote]PA", "goes from author to paper: name one of them in brackets: PA"),
        ("A", "has no step"),
        (["PA", "PA"], r"\[PA, PA\] is broken"),
        (["PAA"], 'no relation "PAA"; did you mean "PA"'),
    ],
)
def test_a_wrong_metapath_is_named(stack: RelationStack, written: str | list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        metapaths_of(stack.relations, [written])


def test_han_needs_types_to_go_between(stack: RelationStack) -> None:
    with pytest.raises(InputError, match="HAN needs meta-paths that return"):
        HAN(3, 4, [Relation("node", "edge", "node")])
    with pytest.raises(InputError, match=r"that its meta-paths start from \(author\), but targets are"):
        HAN(3, 4, stack.relations, metapaths=["APA"], heads=2).plan(stack, torch.tensor([5]))


def all_models(stack: RelationStack) -> list[Backbone]:
    typed = [RGCN(3, 8, stack.relations), HGT(3, 8, stack.relations), HAN(3, 8, stack.relations)]
    return [MLP(3, 8), GCN(3, 8), GAT(3, 8), JKNet(3, 8), MixHop(3, 8), GCNII(3, 8), *typed]


def test_wanted_rows_alone_are_the_same_as_all_rows(x: Tensor) -> None:
    """On a chain most nodes are far from the wanted ones, and are left out."""
    wrote = torch.stack([torch.arange(60).repeat_interleave(2)[:-1], torch.arange(1, 120) // 2])
    edges = {WRITES: wrote, WRITTEN: wrote.flip(0)}
    stack = RelationStack.from_edges(edges, {"author": 60, "paper": 60}, identity=False, dtype=torch.float64)
    x, rows = randn(120, 3), torch.tensor([7, 3, 9])
    for model in map(built, all_models(stack)):
        plan = model.plan(stack, rows)
        wanted = model(Features.of(x).select(plan.inputs), plan)
        torch.testing.assert_close(wanted, model(x, stack)[rows], msg=type(model).__name__)
        assert len(plan.inputs) < 120


def test_nothing_depends_on_the_numbers_of_nodes(stack: RelationStack, x: Tensor) -> None:
    authors, papers = torch.tensor([2, 0, 3, 1]), torch.tensor([4, 2, 0, 1, 3])
    order = torch.cat([authors, papers + 4])
    for model in map(built, all_models(stack)):
        torch.testing.assert_close(model(x[order], stack.subset(order)), model(x, stack)[order])


def test_isolated_wanted_nodes_have_representations(stack: RelationStack, x: Tensor) -> None:
    for model in map(built, all_models(stack)):
        plan = model.plan(stack, torch.tensor([3]))  # an author without papers
        assert model(Features.of(x).select(plan.inputs), plan).isfinite().all()


def test_weights_of_several_relations_between_two_nodes_add_up() -> None:
    edge = torch.tensor([[0], [1]])
    edges = {("n", "a", "n"): (edge, torch.tensor([2.0])), ("n", "b", "n"): (edge, torch.tensor([3.0]))}
    merged = EdgeList.of(RelationStack.from_edges(edges, {"n": 2})).merged()
    assert (merged.rows.tolist(), merged.cols.tolist(), merged.values.tolist()) == ([1], [0], [5.0])
    with pytest.raises(InputError, match="needs edge weights ≥ 0"):
        GCN(3, 4).plan(RelationStack.from_edges({("n", "a", "n"): (edge, torch.tensor([-1.0]))}, {"n": 2}))


def test_attention_has_the_gradients_of_its_formula() -> None:
    edges = torch.tensor([[0, 1, 2, 2, 0], [1, 1, 1, 0, 0]])  # no edge leads to node 2
    score, value, q = (randn(*shape, seed=s).requires_grad_() for s, shape in enumerate([(5, 2), (3, 2, 4), (3, 2, 4)]))
    assert torch.autograd.gradcheck(lambda s, v: attend(edges, s, v, 3), (score, value))
    assert torch.autograd.gradcheck(lambda a, b: edge_dots(edges, a, b), (q, value))
    flat = [randn(3, 2, seed=s).requires_grad_() for s in (5, 6)]
    assert torch.autograd.gradcheck(lambda a, b: edge_sums(edges, a, b, slope=0.2), flat)


def test_dropout_of_attention_drops_weights_and_keeps_their_mean() -> None:
    edges = torch.stack([torch.arange(4000), torch.zeros(4000, dtype=torch.int64)])
    torch.manual_seed(0)
    score, value = torch.zeros(4000, 1, requires_grad=True), torch.ones(4000, 1, 1, requires_grad=True)
    out = attend(edges, score, value, 1, dropout=0.75)
    out.sum().backward()
    assert 0.85 < out.item() < 1.15
    weights = value.grad.flatten()
    assert set((4000 * weights).round().int().tolist()) == {0, 4}
    assert 0.2 < (weights > 0).double().mean() < 0.3


def bare_features(stack: RelationStack) -> Features:
    starts = [stack.nodes_of(t) for t in stack.node_types]
    blocks = [
        FeatureBlock(t, torch.tensor(span), None, None, len(span))
        for t, span in zip(stack.node_types, starts, strict=True)
    ]
    return Features(tuple(blocks), stack.num_nodes)


def test_walks_follow_edges_in_either_direction(stack: RelationStack) -> None:
    graph = WalkGraph.of(EdgeList.of(stack))
    walks = random_walks(graph, np.arange(9), 8, p=0.5, q=2.0, seed=1)
    joined = sum(stack[t].to_dense() for t in range(3))
    joined = ((joined + joined.T) > 0).numpy()
    assert all(joined[a, b] for walk in walks for a, b in pairwise(walk) if b >= 0)
    assert walks[:, 0].tolist() == list(range(9))
    assert (walks[3, 1:] == -1).all()  # an author without papers cannot walk
    assert (walks[[0, 1, 2]] >= 0).all()


def test_steps_have_the_probabilities_of_weights_p_and_q() -> None:
    """From 0 to 1, then: back to 0, on to 2 which is a neighbour of 0, or away to 3, with weights 1, 2 and 3."""
    ends = torch.tensor([[0, 1, 1, 0], [1, 2, 3, 2]])
    edges = {("n", "e", "n"): (ends, torch.tensor([1.0, 2.0, 3.0, 1.0]))}
    graph = WalkGraph.of(EdgeList.of(RelationStack.from_edges(edges, {"n": 4}, identity=False)))
    p, q, count = 0.5, 4.0, 40_000
    walks = random_walks(graph, np.zeros(count, np.int64), 3, p=p, q=q, seed=3)
    third = walks[walks[:, 1] == 1, 2]
    exact = np.array([1 / p, 0, 2, 3 / q])
    seen = np.bincount(third, minlength=4) / len(third)
    assert np.abs(seen - exact / exact.sum()).max() < 4 * np.sqrt(0.25 / len(third))
    assert abs((walks[:, 1] == 1).mean() - 0.5) < 4 * np.sqrt(0.25 / count)


def test_two_cliques_are_told_apart() -> None:
    clique = torch.combinations(torch.arange(8)).T
    edges = {("n", "e", "n"): torch.cat([clique, clique + 8], 1)}
    graph = WalkGraph.of(EdgeList.of(RelationStack.from_edges(edges, {"n": 16}, identity=False)))
    options = {"walk_length": 10, "walks_per_node": 60, "window": 3, "negatives": 3, "p": 1.0, "q": 1.0}
    table = skip_gram(graph, 8, seed=1, **options)
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    likeness = unit @ unit.T
    assert likeness[:8, :8].min() > likeness[:8, 8:].max() + 0.2
    assert (table == skip_gram(graph, 8, seed=1, **options)).all()
    assert (table != skip_gram(graph, 8, seed=2, **options)).any()


def test_node2vec_learns_before_labels_and_never_again(stack: RelationStack) -> None:
    features = bare_features(stack)
    model = Node2Vec(features, 4, WalkOptions(walk_length=5, walks_per_node=2))
    before = model(features, stack)
    torch.manual_seed(7)
    model.prepare(features, stack)
    after = model(features, stack)
    assert not torch.equal(before, after)
    assert not any(parameter.requires_grad for parameter in model.parameters())
    torch.testing.assert_close(after.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    rows = torch.tensor([5, 2])
    plan = model.plan(stack, rows)
    torch.testing.assert_close(model(features.select(plan.inputs), plan), after[rows])
    with pytest.raises(InputError, match="Node2Vec reads no features"):
        Node2Vec(Features.of(torch.ones(9, 3)), 4)
