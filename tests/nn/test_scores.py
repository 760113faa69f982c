"""An encoder of class scores: they travel along the paths, and nothing is learned after the hops."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgtn
from fastgtn.config import Config
from fastgtn.data import make_random_schema
from fastgtn.errors import InputError
from fastgtn.explain import explain_node
from fastgtn.nn import Features
from tests.graphs import randn, random_stack
from tests.reference import dense, fast_gtn

VALUES = {"encoder": "scores", "path_length": 2, "num_channels": 2, "hidden": 6, "dropout": 0.0}


def built(stack, classes=3, **values):
    torch.manual_seed(0)
    config = Config.of({"model": {**VALUES, **values}})
    features = Features.of(randn(stack.num_nodes, 4))
    model = config.model.classifier(features, stack.relations, classes).double().eval()
    torch.nn.init.normal_(model.head.bias)
    return model, features


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 500), gamma=st.sampled_from([0.0, 0.2, 1.0]), channels=st.integers(1, 3))
def test_scores_are_propagated_scores(seed, gamma, channels):
    stack = random_stack(seed, num_types=2, num_relations=3).row_normalized()
    model, features = built(stack, gamma=gamma, num_channels=channels)
    backbone, x = model.backbone, features.blocks[0].matrix
    hidden = torch.relu(x @ backbone.input.weights[0])
    assert hidden.shape == (stack.num_nodes, 6)
    scores = (hidden @ backbone.second.weight.T).unflatten(1, (channels, 3))
    messages = fast_gtn(dense(stack), backbone.hop_filters()[0](), scores, 0.0)
    own = (x @ backbone.own_input.weights[0])[:, None]
    expected = (gamma * own + (1 - gamma) * messages).mean(1) + model.head.bias
    torch.testing.assert_close(model(features, stack), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["fast_gtn", "gtn"])
def test_reasons_add_up_and_need_no_gates(name):
    stack = random_stack(3, num_types=2, num_relations=3).row_normalized()
    model, features = built(stack, name=name)
    logits = model(features, stack).detach()
    for node in range(len(stack.nodes_of("t0"))):
        reasons = explain_node(model, stack, features, "t0", node, top=3)
        parts = [reason.contribution for reason in reasons.reasons]
        parts += [reasons.own, reasons.empty, reasons.bias, reasons.others]
        assert reasons.logits == pytest.approx(logits[stack.nodes_of("t0")[node]].tolist(), abs=1e-10)
        assert sum(parts) == pytest.approx(reasons.logit, abs=1e-10)


@pytest.mark.parametrize("name", ["fast_gtn", "gtn"])
def test_the_last_map_stays_the_identity_and_a_run_is_the_same_after_loading(name: str, tmp_path: Path) -> None:
    graph, task = make_random_schema(0, types=4, relations=8, steps=2, targets=120)
    config = Config.of({"model": {"name": name, "encoder": "scores", "hidden": 8}, "fit": {"epochs": 3}})
    result = fastgtn.fit(graph, task, config)
    assert torch.equal(result.model.head.weight, torch.eye(task.num_classes))
    assert not result.model.head.weight.requires_grad
    result.save(tmp_path / "run")
    again = fastgtn.load_run(tmp_path / "run")
    assert torch.equal(again.model.head.weight, result.model.head.weight)
    torch.testing.assert_close(again.logits, result.logits)
    assert [path.path for path in again.metapaths(3)] == [path.path for path in result.metapaths(3)]


def test_what_cannot_have_scores_is_refused():
    stack = random_stack(3, num_types=2, num_relations=3).row_normalized()
    with pytest.raises(InputError, match=r'model\.aggregate must not be "none"'):
        built(stack, aggregate="none")
    options = Config.of({"model": VALUES}).model
    with pytest.raises(InputError, match="class scores and no representations"):
        options.build(Features.of(randn(stack.num_nodes, 4)), stack.relations)
