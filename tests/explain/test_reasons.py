"""Reasons for one node: the parts of a logit add up, and the instances are the heaviest ones."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgtn.errors import InputError
from fastgtn.explain import explain_node
from fastgtn.explain.instances import heaviest_instances
from fastgtn.explain.walks import walks_of
from fastgtn.nn import GTN, FastGTN, Features, NodeClassifier, NonLocalOptions
from tests.graphs import randn, random_stack


def classifier(kind, stack, K, seed, **options):
    torch.manual_seed(seed)
    backbone = kind(3, 4, stack.relations, dropout=0.0, path_length=K, num_channels=2, filter_init_std=1.0, **options)
    model = NodeClassifier(backbone, 3, dropout=0.0)
    for name, parameter in model.named_parameters():
        if "bias" in name:
            torch.nn.init.normal_(parameter)
    return model.double()


def parts(reasons):
    return [reason.contribution for reason in reasons.reasons] + [
        reasons.own,
        reasons.empty,
        reasons.bias,
        reasons.others,
    ]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    K=st.integers(1, 3),
    kind=st.sampled_from([FastGTN, GTN]),
    normalized=st.booleans(),
    aggregate=st.sampled_from(["concat", "mean", "sum", "none"]),
    activation=st.sampled_from(["relu", "elu", "tanh", "none"]),
    encoder=st.sampled_from(["linear", "relu"]),
    top=st.integers(1, 5),
)
def test_contributions_add_up_to_the_logit(seed, K, kind, normalized, aggregate, activation, encoder, top):
    stack = random_stack(seed, num_types=2, num_relations=3)
    stack = stack.row_normalized() if normalized else stack
    model = classifier(kind, stack, K, seed, bias=True, aggregate=aggregate, activation=activation, encoder=encoder)
    x = randn(stack.num_nodes, 3, seed=seed)
    logits = model(x, stack).detach()
    for node in range(len(stack.nodes_of("t1"))):
        row = stack.nodes_of("t1")[node]
        reasons = explain_node(model, stack, x, "t1", node, top=top)
        assert reasons.logits == pytest.approx(logits[row].tolist(), abs=1e-9)
        assert reasons.class_number == int(logits[row].argmax())
        assert sum(parts(reasons)) == pytest.approx(reasons.logit, abs=1e-9)


def test_all_paths_listed_leave_nothing_over():
    stack = random_stack(5, num_types=2, num_relations=3).row_normalized()
    model = classifier(FastGTN, stack, 2, 0)
    reasons = explain_node(model, stack, randn(stack.num_nodes, 3), "t0", 0, top=1000, class_number=2)
    assert reasons.others == pytest.approx(0, abs=1e-10)
    assert reasons.class_number == 2


def test_float32_models_add_up_to_five_digits():
    stack = random_stack(7, num_types=3, num_relations=5, max_nodes=20, max_edges=60).to(torch.float32).row_normalized()
    model = classifier(FastGTN, stack, 3, 0).float()
    x = randn(stack.num_nodes, 3).float()
    logits = model(x, stack).detach()
    reasons = explain_node(model, stack, x, "t0", 0)
    assert sum(parts(reasons)) == pytest.approx(float(logits[0].max()), abs=1e-5)


def test_non_local_models_are_explained_with_their_edges():
    stack = random_stack(5, num_types=2, num_relations=3).row_normalized()
    model = classifier(FastGTN, stack, 2, 0, non_local=NonLocalOptions(neighbors=2))
    x = randn(stack.num_nodes, 3)
    reasons = explain_node(model, stack, x, "t0", 0)
    assert reasons.logits == pytest.approx(model(x, stack)[0].tolist(), abs=1e-9)
    assert sum(parts(reasons)) == pytest.approx(reasons.logit, abs=1e-9)
    for reason in reasons.reasons:
        assert reason.instances
        assert sum(i.weight for i in reason.instances) <= reason.path.weight + 1e-12


def test_features_per_type_are_cut_to_the_surroundings():
    stack = random_stack(11, num_types=2, num_relations=2, max_nodes=6, max_edges=3).row_normalized()
    counts = dict(zip(stack.node_types, stack.node_counts, strict=True))
    graph = stack.to_hetero()
    for node_type, width in (("t0", 2), ("t1", 3)):
        graph[node_type].num_nodes, graph[node_type].x = counts[node_type], randn(counts[node_type], width)
    features = Features.from_hetero(graph)
    torch.manual_seed(0)
    model = NodeClassifier(FastGTN(features, 4, stack.relations, dropout=0.0), 2, dropout=0.0).double()
    logits = model(features, stack)
    for node in range(counts["t1"]):
        reasons = explain_node(model, stack, features, "t1", node)
        assert reasons.logits == pytest.approx(logits[counts["t0"] + node].tolist(), abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), top=st.integers(1, 6), normalized=st.booleans())
def test_instances_are_the_heaviest_of_all(seed, top, normalized):
    stack = random_stack(seed, num_types=2, num_relations=3)
    stack = stack.row_normalized() if normalized else stack
    model = classifier(FastGTN, stack, 3, seed)
    reasons = explain_node(model, stack, randn(stack.num_nodes, 3), "t0", 0, instances=top)
    walks = walks_of(model, stack)
    total = walks.totals()[0][0]
    for reason in reasons.reasons:
        path = reason.path.path
        counts = [len(stack.nodes_of(t)) for t in path.types[1:]]
        every = [weigh(walks, path, (0, *nodes), total) for nodes in product(*map(range, counts))]
        expected = sorted((w for w in every if w > 0), reverse=True)
        assert [i.weight for i in reason.instances] == pytest.approx(expected[:top], abs=1e-12)
        for instance in reason.instances:
            assert weigh(walks, path, instance.nodes, total) == pytest.approx(instance.weight, abs=1e-12)
        assert sum(expected) == pytest.approx(reason.path.weight, abs=1e-10)


def weigh(walks, path, nodes, total):
    """One instance by brute force: all ways to lay its steps over the hops."""
    K, C = walks.shape
    steps = walks.numbers(path)
    kinds = [walks.node_types.index(t) for t in path.types]
    weight = 0.0
    for c in range(C):
        for moves in product((False, True), repeat=K):
            if sum(moves) != len(steps):
                continue
            taken, term = 0, 1.0
            for k, move in enumerate(moves):
                if move:
                    edge = walks.matrices[steps[taken]][0][nodes[taken], nodes[taken + 1]]
                    term *= walks.filters[k, c, walks.steps[steps[taken]].relation] * edge
                    taken += 1
                else:
                    term *= walks.stays[kinds[taken]][nodes[taken], k, c]
            weight += term / total[c] / C
    return weight


def test_the_empty_path_has_no_instances():
    stack = random_stack(3).row_normalized()
    walks = walks_of(classifier(FastGTN, stack, 2, 0), stack)
    path = walks.path(0, [])
    assert heaviest_instances(walks, path, 0, total=walks.totals()[0][0], top=3) == []


def test_a_node_that_does_not_exist():
    stack = random_stack(3).row_normalized()
    with pytest.raises(InputError, match="t0 node -1 does not exist: t0 nodes are numbered 0 …"):
        explain_node(classifier(FastGTN, stack, 2, 0), stack, randn(stack.num_nodes, 3), "t0", -1)
