"""With as_of, nothing that is later than the moment of a node reaches it: in training, validation and prediction."""

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from quick_config import quick
from timed_graphs import seeing_everything, verdicts, with_other_future, without_moments
from torch_geometric.data import Data, HeteroData

import fastgtn
from fastgtn import InputError
from fastgtn.data import NodeTask, archive, as_hetero
from fastgtn.data.importers import import_graph
from fastgtn.training.build import Inputs, build_model
from fastgtn.training.predict import Inference, representations
from fastgtn.training.prepare.screened import screen_inputs
from fastgtn.training.prepare.setting import estimated_seconds
from fastgtn.training.steps import plan_passes

GRAPH, TASK = verdicts(customers=120)
MOMENTS = GRAPH["customer"].as_of
MODELS: dict[str, dict[str, Any]] = {
    "fast_gtn": {},
    "unrolled": {"propagation": "unrolled", "dropout": 0.0},
    "two layers": {"num_layers": 2, "propagation": "implicit"},
    "gtn": {"name": "gtn"},
    "gcn": {"name": "gcn"},
    "hgt": {"name": "hgt"},
    "mlp": {"name": "mlp"},
}


def config(name: str = "fast_gtn", **sections: Any) -> Any:
    return quick(model=MODELS[name], **sections)


def alone(graph: HeteroData, moment: float) -> HeteroData:
    """What was known before a moment, as a graph without any time: the plain way to hide the future."""
    past = with_other_future(graph, moment, add=False)
    for edge_type in past.edge_types:
        del past[edge_type].time
    return without_moments(past)


@pytest.mark.parametrize("name", list(MODELS))
def test_logits_of_training_and_validation_are_those_of_the_graph_before_each_moment(name: str) -> None:
    chosen = config(name, fit={"epochs": 1})
    inputs = Inputs.of(GRAPH, chosen)
    torch.manual_seed(0)
    model = build_model(chosen.model, inputs.features, inputs.raw.relations, 2).eval()
    passes = plan_passes(inputs, TASK, model, chosen)
    (step,) = passes.steps(0)
    found = torch.cat([step.logits(model).detach(), *passes.val(model)])
    nodes = torch.cat([TASK.train.nodes, TASK.val.nodes])
    for moment in MOMENTS[nodes].unique().tolist():
        past = Inputs.of(alone(GRAPH, moment), chosen)
        mine = MOMENTS[nodes] == moment
        expected = model.classify(representations(model, past, "customer")).detach()[nodes[mine]]
        torch.testing.assert_close(found[mine], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch", [{}, {"size": 32, "fanouts": "all"}, {"size": 32, "eval": "batches", "fanouts": 2}])
def test_a_prediction_does_not_change_with_what_happens_later(batch: dict[str, Any]) -> None:
    """To the bit: edges of the moment itself and later ones are removed, and others are added."""
    result = fastgtn.fit(GRAPH, TASK, config(fit={"epochs": 3}, batch=batch))
    before = result.logits
    for moment in MOMENTS.unique().tolist():
        known = moment >= MOMENTS
        for add in (True, False):
            other = result.on(with_other_future(GRAPH, moment, add=add), TASK).logits
            assert torch.equal(before[known], other[known])
    changed = result.on(seeing_everything(GRAPH), TASK).logits
    assert not torch.allclose(before, changed, atol=1e-2)


@pytest.mark.parametrize("batch", [{}, {"size": 32, "fanouts": 2}, {"size": 16, "sampler": "layer", "budget": 8}])
def test_training_does_not_change_with_what_happens_after_the_last_training_moment(batch: dict[str, Any]) -> None:
    """The whole history of losses and validation scores, in full batch and with either sampler."""
    last = float(MOMENTS[torch.cat([TASK.train.nodes, TASK.val.nodes])].max())
    one, other = (
        fastgtn.fit(graph, TASK, config(fit={"epochs": 3}, batch=batch))
        for graph in (GRAPH, with_other_future(GRAPH, last))
    )
    assert [r["loss"] for r in one.history] == [r["loss"] for r in other.history]
    assert one.val == other.val


def test_future_edges_give_the_label_away_only_without_as_of() -> None:
    graph, task = verdicts()
    settings = config(fit={"epochs": 25, "learning_rate": 0.05})
    leaking = fastgtn.fit(without_moments(graph), task, settings)
    honest = fastgtn.fit(graph, task, settings)
    assert leaking.val["accuracy"] > 0.97
    assert honest.val["accuracy"] < 0.85
    # what the leaking model learned is worth nothing where the future is not known yet
    assert leaking.evaluate("test", graph=graph, task=task)["accuracy"] < honest.test["accuracy"] + 0.05


def test_screening_does_not_see_the_future() -> None:
    """The path to the courts explains all labels without as_of, and nothing with it."""
    chosen = config()
    tables = {}
    for name, graph in (("leaking", without_moments(GRAPH)), ("honest", GRAPH)):
        found = screen_inputs(Inputs.of(graph, chosen), TASK, chosen)
        tables[name] = {path.name: path.r_squared for path in found.paths if len(path.path) <= 2}
    court = next(name for name, r in tables["leaking"].items() if r > 0.97)
    assert tables["honest"].get(court, 0.0) < 0.05
    last = float(MOMENTS[TASK.train.nodes].max())
    again = screen_inputs(Inputs.of(with_other_future(GRAPH, last), chosen), TASK, chosen)
    for path in again.paths:
        assert path.r_squared == pytest.approx(tables["honest"].get(path.name, path.r_squared), abs=1e-9)


def test_trials_count_the_copies_of_nodes_that_each_moment_sees() -> None:
    settings = config(batch={"size": 0})
    few, many = (
        estimated_seconds(Inputs.of(graph, settings), task, settings)
        for graph, task in (verdicts(customers=120, moments=m) for m in (4, 40))
    )
    inputs = Inputs.of(GRAPH, settings)
    assert inputs.moments is not None
    assert estimated_seconds(dataclasses.replace(inputs, moments=None), TASK, settings) < few < many


def test_one_date_for_all_filters_the_graph_once() -> None:
    graph = copy.copy(GRAPH)
    graph["customer"].as_of = 20.0
    inputs = Inputs.of(graph, config())
    assert inputs.moments is None
    assert inputs.is_timed
    assert inputs.raw.num_edges == sum(int((GRAPH[e].time < 20).sum()) for e in GRAPH.edge_types)
    result = fastgtn.fit(graph, TASK, config(fit={"epochs": 2}))
    plain = fastgtn.fit(alone(GRAPH, 20.0), TASK, config(fit={"epochs": 2}))
    assert torch.equal(result.logits, plain.logits)


def test_a_node_without_a_moment_sees_everything() -> None:
    graph = copy.copy(GRAPH)
    graph["customer"].as_of = MOMENTS.clone()
    graph["customer"].as_of[TASK.test_nodes] = torch.nan
    unlabelled = NodeTask.from_labels(
        "customer", "single", TASK._labels, train=TASK.train.nodes, val=TASK.val.nodes, test=[]
    )
    result = fastgtn.fit(graph, unlabelled, config(fit={"epochs": 2}))
    everything = result.on(seeing_everything(GRAPH), unlabelled).logits
    torch.testing.assert_close(result.logits[TASK.test_nodes], everything[TASK.test_nodes], rtol=1e-5, atol=1e-6)


def test_moments_one_after_the_other_give_the_same_as_side_by_side() -> None:
    chosen = config()
    inputs = Inputs.of(GRAPH, chosen)
    torch.manual_seed(0)
    model = build_model(chosen.model, inputs.features, inputs.raw.relations, 2).eval()
    rows = torch.arange(0, len(MOMENTS), 8).flip(0)
    tight = Inference(inputs, model, rows, budget=1)
    assert tight.mode == "blocks"
    together = torch.cat(list(Inference(inputs, model, rows).representations(model)))
    torch.testing.assert_close(torch.cat(list(tight.representations(model))), together, rtol=1e-5, atol=1e-6)


def test_learned_embeddings_and_sparse_features_are_shared_by_all_moments() -> None:
    graph = copy.copy(GRAPH)
    del graph["shop"].x
    graph["shop"].num_nodes = 40
    graph["customer"].x = GRAPH["customer"].x.relu().to_sparse_csr()
    result = fastgtn.fit(graph, TASK, config(fit={"epochs": 2}))
    assert 40 in [len(weight) for weight in result.model.backbone.input.weights]
    other = result.on(with_other_future(graph, 30.0), TASK).logits
    assert torch.equal(result.logits[MOMENTS <= 30], other[MOMENTS <= 30])
    screened = fastgtn.fit(graph, TASK, quick(model={"start": "screened"}, fit={"epochs": 1}))
    assert screened.epoch == 1


def test_a_stored_run_and_archive_keep_times_and_moments(tmp_path: Path) -> None:
    archive.write(tmp_path / "g.npz", GRAPH, TASK)
    graph, task = archive.read(tmp_path / "g.npz")
    assert task is not None
    assert torch.equal(graph["customer"].as_of, MOMENTS.double())
    for edge_type in GRAPH.edge_types:
        ends = int(GRAPH[edge_type[2]].num_nodes)
        stored = [
            (e[0] * ends + e[1]) * 1000 + t
            for e, t in ((g[edge_type].edge_index, g[edge_type].time) for g in (GRAPH, graph))
        ]
        torch.testing.assert_close(stored[0].double().sort().values, stored[1].double().sort().values)
    result = fastgtn.fit(graph, task, config(fit={"epochs": 2}))
    again = fastgtn.load_run(result.save(tmp_path / "run"))
    assert again.schema.as_of
    torch.testing.assert_close(again.logits, result.logits, rtol=0, atol=1e-6)
    other = again.on(with_other_future(graph, 30.0), task).logits
    assert torch.equal(again.logits[MOMENTS <= 30], other[MOMENTS <= 30])


def test_moments_that_cannot_be_kept_are_refused() -> None:
    bare = copy.copy(GRAPH)
    for edge_type in GRAPH.edge_types:
        del bare[edge_type].time
    with pytest.raises(InputError, match=r'"customer" have as_of, but no node and no edge has a time'):
        fastgtn.fit(bare, TASK, config())
    missing = copy.copy(GRAPH)
    missing["customer"].as_of = torch.where(torch.arange(120) < 3, torch.nan, MOMENTS)
    with pytest.raises(InputError, match="3 training nodes have no as_of, so they would see everything"):
        fastgtn.fit(missing, TASK, config())
    wrong = copy.copy(GRAPH)
    wrong["customer"].as_of = torch.zeros(3)
    with pytest.raises(InputError, match=r'node type "customer": as_of must be one number each, shape \[120\]'):
        fastgtn.fit(wrong, TASK, config())
    with pytest.raises(InputError, match="so it would see the future: set model"):
        fastgtn.fit(GRAPH, TASK, quick(model={"non_local": {"enabled": True}}))
    with pytest.raises(InputError, match="was trained with as_of, but the customer nodes of the graph have no moments"):
        fastgtn.fit(GRAPH, TASK, config(fit={"epochs": 1})).predict(without_moments(GRAPH))
    with pytest.raises(InputError, match="walks along all edges"):
        fastgtn.fit(GRAPH, TASK, quick(model={"name": "node2vec"}))
    born = copy.copy(GRAPH)
    born["shop"].time = torch.zeros(40)
    with pytest.raises(InputError, match='"symmetric" divides by the number of nodes that receive a message'):
        fastgtn.fit(born, TASK, config(graph={"normalize": "symmetric"}))


def test_explanations_are_those_of_the_moment() -> None:
    """A node's reasons add up to its prediction, and no path leads to a court that is still to come."""
    result = fastgtn.fit(GRAPH, TASK, config(fit={"epochs": 2}))
    node, moment = 70, 30.0
    assert MOMENTS[node] == moment
    reasons = result.explain(node, of_class="1")
    assert reasons.logit == pytest.approx(float(result.logits[node, 1]), abs=1e-5)
    other = result.on(with_other_future(GRAPH, moment), TASK)
    again = dataclasses.replace(result, open_graph=lambda _: other)
    assert again.explain(node, of_class="1") == reasons
    everything = result.on(seeing_everything(GRAPH), TASK)
    later = dataclasses.replace(result, open_graph=lambda _: everything)
    assert any("court" in path.path.types for path in later.metapaths())
    for nodes in (None, TASK.train.nodes):
        assert not any("court" in path.path.types for path in result.metapaths(nodes=nodes))


def test_single_nodes_are_scored_at_their_moments(tmp_path: Path) -> None:
    result = fastgtn.fit(GRAPH, TASK, config(fit={"epochs": 1}))
    again = fastgtn.load_run(result.save(tmp_path / "run"))
    nodes = [100, 3, 50]
    columns = [table.column("p_1").to_pylist() for table in (again.predict(nodes=nodes), result.predict(nodes=nodes))]
    assert columns[0] == pytest.approx(columns[1], abs=1e-6)


def test_attributes_of_edges_are_summarised_from_the_past() -> None:
    graph = copy.copy(GRAPH)
    for edge_type in GRAPH.edge_types:
        graph[edge_type].edge_attr = torch.ones(GRAPH[edge_type].edge_index.size(1))
    moment = 30.0
    other = with_other_future(graph, moment)
    for edge_type in GRAPH.edge_types:
        other[edge_type].edge_attr = torch.ones(other[edge_type].edge_index.size(1))
    with pytest.warns(UserWarning, match='features of "shop" are summarised from'):
        one = fastgtn.data.with_edge_features(graph)
    with pytest.warns(UserWarning, match='features of "court" are summarised from'):
        two = fastgtn.data.with_edge_features(other, like=one)
    known = moment >= MOMENTS
    assert one["customer"].x.size(1) > GRAPH["customer"].x.size(1)
    assert torch.equal(one["customer"].x[known], two["customer"].x[known])
    assert torch.equal(one["shop"].x, two["shop"].x)
    assert bool((one["customer"].time < MOMENTS).all())


def test_times_of_saved_pyg_graphs_are_read(tmp_path: Path) -> None:
    torch.save(GRAPH, tmp_path / "h.pt")
    graph, _ = import_graph("pyg", tmp_path / "h.pt")
    assert torch.equal(graph["customer"].as_of, MOMENTS)
    assert all(torch.equal(graph[edge_type].time, GRAPH[edge_type].time) for edge_type in GRAPH.edge_types)
    plain = Data(num_nodes=3, edge_index=torch.tensor([[0, 1], [1, 2]]), edge_time=torch.tensor([1.0, 2.0]))
    plain.as_of = torch.tensor([1.0, 2.0, 3.0])
    torch.save(plain, tmp_path / "d.pt")
    hetero = as_hetero(plain)
    assert hetero["node"].as_of.tolist() == [1, 2, 3]
    assert hetero["node", "edge", "node"].time.tolist() == [1, 2]
    read, _ = import_graph("pyg", tmp_path / "d.pt")
    assert read[read.edge_types[0]].time.tolist() == [1, 2]
