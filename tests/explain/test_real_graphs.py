"""Facts about the effective meta-paths of the paper's graphs."""

import pytest
import torch

from fastgtn.data import load
from fastgtn.explain import explain_node, rank_metapaths
from fastgtn.nn import GTN, FastGTN, Features, NodeClassifier
from fastgtn.relations import RelationStack

pytestmark = pytest.mark.slow


def uniform(kind, stack, K):
    model = kind(3, 2, stack.relations, path_length=K, num_channels=1)
    model.hop_filters()[0].fix(torch.full((K, 1, len(stack)), 1 / len(stack)))
    return model


@pytest.mark.parametrize(("K", "share", "count"), [(2, 0.92, 3), (3, 0.984, 5), (4, 0.9936, 9)])
def test_most_sequences_of_dblp_run_as_shorter_paths(real_graphs, K, share, count):
    graph, task = load("dblp", data_dir=real_graphs)
    stack = RelationStack.from_hetero(graph).row_normalized()
    ranking = rank_metapaths(uniform(FastGTN, stack, K), stack, task.target, top=1000)
    assert len(ranking) == count
    assert ranking.listed_weight == pytest.approx(1)
    assert 1 - sum(r.weight for r in ranking if len(r.path) == K) == pytest.approx(share, abs=1e-4)


@pytest.mark.parametrize("name", ["dblp", "acm", "imdb"])
def test_shares_of_gtn_add_up_on_raw_adjacency(real_graphs, name):
    graph, task = load(name, data_dir=real_graphs)
    stack = RelationStack.from_hetero(graph)
    ranking = rank_metapaths(uniform(GTN, stack, 3), stack, task.target, top=1000)
    assert ranking.listed_weight == pytest.approx(1)
    back = rank_metapaths(uniform(GTN, stack, 3), stack, task.target, top=1000, between_targets=True)
    assert {r.name for r in back} == {"dblp": {"APA"}, "acm": {"PAP", "PSP"}, "imdb": {"MAM", "MDM"}}[name]


def test_papers_without_author_stay_where_they_are(real_graphs):
    graph, task = load("acm", data_dir=real_graphs)
    stack = RelationStack.from_hetero(graph).row_normalized()
    ranking = rank_metapaths(uniform(FastGTN, stack, 2), stack, task.target, top=1000)
    assert ranking.empty_weight > (3 / 5) ** 2  # three of five relations stay for the others, four for these


def test_the_parts_of_a_logit_add_up_on_imdb(real_graphs):
    graph, task = load("imdb", data_dir=real_graphs)
    stack, features = RelationStack.from_hetero(graph).row_normalized(), Features.from_hetero(graph)
    torch.manual_seed(0)
    model = NodeClassifier(
        FastGTN(features, 64, stack.relations, dropout=0.0, path_length=3), task.num_classes, dropout=0.0
    )
    reasons = explain_node(model, stack, features, task.target, 3)
    total = sum(r.contribution for r in reasons.reasons) + reasons.own + reasons.empty + reasons.bias + reasons.others
    logits = model(features, stack).detach()[stack.nodes_of(task.target)[3]]
    assert total == pytest.approx(float(logits.max()), abs=1e-5)
