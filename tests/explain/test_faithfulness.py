"""The model as a sum over meta-paths, and what happens when some of them are taken away."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgtn.data import NodeTask
from fastgtn.errors import InputError
from fastgtn.explain import faithfulness, rank_metapaths
from fastgtn.explain.linear import LinearPart
from fastgtn.nn import GTN, FastGTN, NodeClassifier, NonLocalOptions
from fastgtn.relations import RelationStack
from fastgtn.relations.paths.metapath import MetaPath
from tests.graphs import randn, random_stack


def classifier(kind, stack, K, seed, **options):
    torch.manual_seed(seed)
    backbone = kind(3, 4, stack.relations, dropout=0.0, path_length=K, num_channels=2, filter_init_std=1.0, **options)
    return NodeClassifier(backbone, 3, dropout=0.0).double()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    K=st.integers(1, 3),
    kind=st.sampled_from([FastGTN, GTN]),
    normalized=st.booleans(),
    bias=st.booleans(),
    aggregate=st.sampled_from(["concat", "mean", "none"]),
)
def test_paths_add_up_to_the_model(seed, K, kind, normalized, bias, aggregate):
    stack = random_stack(seed, num_types=2, num_relations=3)
    stack = stack.row_normalized() if normalized else stack
    model = classifier(kind, stack, K, seed, bias=bias, aggregate=aggregate)
    x = randn(stack.num_nodes, 3, seed=seed)
    part = LinearPart(model, stack, x, "t0")
    logits = model.head(part.aggregate(part.hidden(part.whole)))
    torch.testing.assert_close(logits, model(x, stack)[: logits.size(0)])
    paths = [MetaPath((), ("t0",)), *(ranked.path for ranked in rank_metapaths(model, stack, "t0", top=10_000))]
    messages = [part.along(path) for path in paths]
    assert sum(m.values for m in messages) == pytest.approx(part.whole.values, abs=1e-10)
    assert sum(m.mass for m in messages) == pytest.approx(part.whole.mass, abs=1e-10)


def two_topics():
    """Papers of one venue have one topic; the venue shows it, authors are noise: only PV knows the label."""
    venue = torch.arange(40) % 2
    edges = {
        ("venue", "VP", "paper"): torch.stack([venue, torch.arange(40)]),
        ("author", "AP", "paper"): torch.stack([torch.arange(40) % 7, torch.arange(40)]),
    }
    stack = RelationStack.from_edges(edges, {"paper": 40, "author": 7, "venue": 2}).row_normalized()
    x = torch.zeros(49, 3)
    x[47], x[48] = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0])
    x[:47] = 0.1 * torch.randn(47, 3, generator=torch.Generator().manual_seed(0))
    nodes = torch.arange(40)
    task = NodeTask.from_labels("paper", "single", venue, train=nodes[:20], val=nodes[20:], test=nodes[:0])
    return stack, x, task


@pytest.mark.parametrize("kind", [FastGTN, GTN])
def test_the_path_that_carries_the_label_matters(kind):
    stack, x, task = two_topics()
    torch.manual_seed(0)
    model = NodeClassifier(kind(3, 8, stack.relations, dropout=0.0, path_length=2), 2, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        task.loss(model(x, stack)[task.train.nodes], task.train.labels).backward()
        optimizer.step()
    ranking = rank_metapaths(model, stack, "paper")
    result = faithfulness(model, stack, x, task, ranking)
    effect = {path.name: path for path in result.paths}
    assert ranking.paths[0].name == "PV"
    assert result.whole == pytest.approx(1)
    assert effect["PV"].only == pytest.approx(1)
    assert effect["PV"].without < 0.8
    assert effect["PA"].without == pytest.approx(1)
    assert result.none < 0.8
    assert result.to_dict()["paths"][0]["change_without"] == effect["PV"].without - result.whole


def test_dropping_and_keeping_complete_each_other():
    stack, x, _ = two_topics()
    part = LinearPart(classifier(FastGTN, stack, 2, 0), stack, x.double(), "paper")
    path = MetaPath.of([("venue", "VP", "paper")])
    rest = part.whole - part.along(path)
    assert rest.mass + part.along(path).mass == pytest.approx(part.whole.mass)
    assert (part.whole - part.whole).mass.max() == 0


def test_a_path_without_edges_brings_nothing():
    stack = RelationStack.from_edges({("a", "r", "a"): torch.empty(2, 0, dtype=torch.int64)}, {"a": 2})
    part = LinearPart(classifier(GTN, stack, 2, 0), stack, randn(2, 3), "a")
    assert part.along(MetaPath.of([("a", "r", "a")])).mass.max() == 0


def test_non_local_edges_are_held_fixed():
    stack, x, _ = two_topics()
    model = classifier(FastGTN, stack, 2, 0, non_local=NonLocalOptions(neighbors=3))
    part = LinearPart(model, stack, x.double(), "paper")
    logits = model.head(part.aggregate(part.hidden(part.whole)))
    torch.testing.assert_close(logits, model(x.double(), stack)[:40])


def test_several_layers_are_refused():
    stack, x, _ = two_topics()
    with pytest.raises(InputError, match="one layer is a sum over meta-paths, but this one has 2 layers"):
        LinearPart(classifier(FastGTN, stack, 2, 0, num_layers=2), stack, x.double(), "paper")
