"""Screening decides the path length, the channels and the start of the filters; a run keeps what it decided."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.config import Config
from fastgtn.data import NodeTask, archive, make_random_schema
from fastgtn.errors import InputError
from fastgtn.nn import Features
from fastgtn.nn.filters import HopFilters
from fastgtn.relations import IDENTITY, Relation
from fastgtn.runs.learned.decided import stored_decisions
from fastgtn.runs.train import train
from fastgtn.training.build import Inputs, build_model
from fastgtn.training.loop import Best, State
from fastgtn.training.prepare.far import MOST_HOPS, far_length
from fastgtn.training.prepare.settle import settle

SMALL = {"model": {"hidden": 8}, "fit": {"epochs": 3}}


@pytest.fixture(scope="module")
def planted() -> tuple[HeteroData, NodeTask]:
    return make_random_schema(0, types=4, relations=8, steps=2, targets=300)


@pytest.mark.parametrize("model", ["fast_gtn", "gtn"])
def test_the_filters_start_from_the_planted_path(planted: tuple[HeteroData, NodeTask], model: str) -> None:
    graph, task = planted
    config = Config.of(SMALL, {"model": {"name": model}, "fit": {"epochs": 1, "learning_rate": 1e-9}})
    result = fastgtn.fit(graph, task, config)
    assert result.config.model.path_length == 2
    for hop, relation in enumerate(graph.planted["relations"]):
        place = result.model.backbone.relations.index(Relation(*relation))
        assert result.filters[0][hop, 0, place] == pytest.approx(0.9**0.5, abs=0.02)  # both hops together have 90 %


def test_numbers_that_are_given_stay(planted: tuple[HeteroData, NodeTask]) -> None:
    graph, task = planted
    config = Config.of(SMALL, {"model": {"path_length": 3, "num_channels": 5}})
    inputs, settled = settle(Inputs.of(graph, config), task, config)
    assert (settled.model.path_length, settled.model.num_channels) == (3, 5)
    assert inputs.screening is not None
    assert inputs.screening.longest == 3


def test_rows_that_are_not_divided_keep_the_given_empty_rows(planted: tuple[HeteroData, NodeTask]) -> None:
    graph, task = planted
    values = {"graph": {"normalize": "none", "empty_rows": "zero"}, "model": {"name": "gtn"}}
    config = Config.of(SMALL, values, {"fit": {"trial_seconds": 0}})
    assert settle(Inputs.of(graph, config), task, config)[1].graph.empty_rows == "zero"


def test_uniform_filters_are_not_screened(planted: tuple[HeteroData, NodeTask]) -> None:
    graph, task = planted
    config = Config.of(SMALL, {"model": {"start": "uniform"}})
    inputs, settled = settle(Inputs.of(graph, config), task, config)
    assert inputs.screening is None
    assert (settled.model.path_length, settled.model.num_channels) == (2, 2)


def test_without_a_significant_path_filters_start_uniform() -> None:
    graph, task = make_random_schema(1, types=3, relations=6, permuted=True)
    result = fastgtn.fit(graph, task, Config.of(SMALL, {"fit": {"epochs": 1, "learning_rate": 1e-9}}))
    assert (result.config.model.path_length, result.config.model.num_channels) == (2, 2)
    assert result.filters[0].max() < 2.5 / len(result.model.backbone.relations)


def test_few_training_nodes_are_not_screened(planted: tuple[HeteroData, NodeTask]) -> None:
    graph, task = planted
    few = replace(task, train=replace(task.train, nodes=task.train.nodes[:4], labels=task.train.labels[:4]))
    config = Config.of(SMALL)
    inputs, settled = settle(Inputs.of(graph, config), few, config)
    assert inputs.screening is None
    assert settled.model.path_length == 2


def test_other_models_are_left_alone(planted: tuple[HeteroData, NodeTask]) -> None:
    graph, task = planted
    config = Config.of({"model": {"name": "gcn"}})
    settled = settle(Inputs.of(graph, config), task, config)[1]
    assert settled.features.normalize != "auto"
    assert settled == config.model_copy(update={"features": settled.features})


def test_a_run_stores_its_screening_and_continues_from_it(
    planted: tuple[HeteroData, NodeTask], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.write(tmp_path / "g.npz", *planted)
    config = Config.of(SMALL, {"dataset": str(tmp_path / "g.npz")})
    train(config, out=tmp_path / "run")
    stored = stored_decisions(tmp_path / "run")
    assert stored is not None
    assert stored.screening is not None
    assert len(stored.screening.chosen[0].path) == 2
    again = fastgtn.load_run(tmp_path / "run")
    assert again.config.model.path_length == 2
    monkeypatch.setattr("fastgtn.training.prepare.settle.screen_inputs", None)  # a continued run screens nothing
    more = Config.of(config.model_dump(), {"fit": {"runs": 2}})
    assert len(train(more, out=tmp_path / "run", resume=True)["runs"]) == 2
    assert 'path_length = "auto"' in (tmp_path / "run" / "config.toml").read_text()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"trials": [{"values": 3, "score": 1.0, "seconds": 0.1, "kept": True}]}, r"trials\.0\.values: .*dictionary"),
        ({"trials": None}, "trials: Input should be a valid list"),
        ({"screening": {"target": "author"}}, r"screening\.joint_r_squared: Field required"),
        ({"screening": []}, r"screening: Input should be"),
    ],
)
def test_changed_decisions_are_named(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    (tmp_path / "decisions.json").write_text(json.dumps({"screening": None, "trials": []} | changed))
    with pytest.raises(InputError, match=rf"decisions\.json is missing or damaged \({message}"):
        stored_decisions(tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"graph.normalize": ["row"]}, r"graph\.normalize"),
        ({"model.gamma": "none"}, r"model\.gamma"),
        ({"model.encoder": {}}, r"model\.encoder"),
        ({"model.strat": "far"}, 'the config does not leave "model.strat" to trials'),
        ({"graph": "row"}, 'the config does not leave "graph" to trials'),
        ({"fit.epochs": 10**9}, 'the config does not leave "fit.epochs" to trials'),
    ],
)
def test_decisions_that_the_config_does_not_leave_open_are_refused(
    tmp_path: Path, values: dict[str, object], message: str
) -> None:
    trial = {"values": values, "score": 1.0, "seconds": 0.1, "kept": True}
    (tmp_path / "decisions.json").write_text(json.dumps({"screening": None, "trials": [trial]}))
    with pytest.raises(InputError, match=rf"decisions\.json is missing or damaged \({message}"):
        stored_decisions(tmp_path, Config.of({}))


def test_a_damaged_screening_is_named(tmp_path: Path) -> None:
    (tmp_path / "screening.json").write_text(json.dumps({"paths": 3}))
    with pytest.raises(InputError, match=r"screening\.json"):
        stored_decisions(tmp_path)


def test_the_same_seed_gives_the_same_weights(planted: tuple[HeteroData, NodeTask]) -> None:
    first, second = (fastgtn.fit(*planted, Config.of(SMALL)).model.state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_model_is_not_built_before_screening(planted: tuple[HeteroData, NodeTask]) -> None:
    with pytest.raises(InputError, match='are "auto", which screening has to decide first'):
        Config.of().model.build(Features.from_hetero(planted[0]), [IDENTITY])


def test_paths_that_do_not_fit_are_refused() -> None:
    one, other = Relation("a", "r", "a"), Relation("a", "s", "a")
    filters = HopFilters(2, 1, [one, IDENTITY])
    filters.start_from([[one]])
    assert filters()[0, 0, 0] > 0.8
    assert filters()[1, 0, 1] > 0.8
    with pytest.raises(InputError, match="a path of 3 steps does not fit into 2 hops"):
        filters.start_from([[one] * 3])
    with pytest.raises(InputError, match="the model has no relation"):
        filters.start_from([[other]])


@pytest.mark.trials
def test_trials_decide_open_keys_and_a_run_keeps_the_outcome(
    planted: tuple[HeteroData, NodeTask], tmp_path: Path
) -> None:
    archive.write(tmp_path / "g.npz", *planted)
    config = Config.of(SMALL, {"dataset": str(tmp_path / "g.npz"), "model": {"encoder": "relu"}})
    train(config, out=tmp_path / "run")
    found = stored_decisions(tmp_path / "run")
    assert found is not None
    tried = [trial.values for trial in found.trials]
    # the encoder was given, and own features that predict nothing are left out at first
    assert found.screening is not None
    assert not found.screening.own_is_significant
    usual = {"graph.normalize": "row", "graph.empty_rows": "self", "model.start": "screened", "model.gamma": 0.0}
    usual |= {"model.aggregate": "mean", "model.activation": "relu", "fit.consistency": 0.0, "fit.weight_decay": 0.001}
    assert tried[0] == usual
    assert {0.01} == {values["fit.weight_decay"] for values in tried if values["fit.consistency"]}
    assert {"zero", "mixed", "far", "log", "concat", 0.2} <= {value for values in tried for value in values.values()}
    best = max((trial for trial in found.trials if trial.kept), key=lambda trial: trial.score or 0.0)
    assert found.outcome == best.values
    settled = fastgtn.load_run(tmp_path / "run").config
    assert settled.graph.normalize == found.outcome["graph.normalize"]
    assert settled.graph.empty_rows == found.outcome["graph.empty_rows"]
    assert settled.model.start == found.outcome["model.start"]
    assert settled.fit.weight_decay == found.outcome["fit.weight_decay"]


@pytest.mark.parametrize("model", ["fast_gtn", "gtn"])
def test_the_normalisation_whose_paths_explain_most_comes_first(model: str) -> None:
    graph, task = make_random_schema(10)  # labels follow means over four hops, each of which has an equal say
    config = Config.of({"model": {"name": model}})
    inputs, settled = settle(Inputs.of(graph, config), task, config)
    assert settled.graph.normalize == "row"
    assert inputs.screening is not None
    first = inputs.screening.chosen[0].path.relations
    assert [list(relation) for relation in first] == graph.planted["relations"]
    again = settle(Inputs.of(graph, config), task, config, stored=inputs.decisions)
    assert again[1] == settled
    assert again[0].screening is inputs.screening


def test_a_mixed_start_leaves_one_channel_uniform(planted: tuple[HeteroData, NodeTask]) -> None:
    graph, task = planted
    config = Config.of(SMALL, {"model": {"start": "mixed"}, "fit": {"epochs": 1, "learning_rate": 1e-9}})
    filters = fastgtn.fit(graph, task, config).filters[0]
    assert filters[:, 0].max(-1).min() > 0.9
    assert filters[:, -1].max() < 2.5 / filters.shape[-1]
    longer = fastgtn.fit(graph, task, Config.of(config.model_dump(), {"model": {"start": "longer"}})).filters[0]
    assert (len(filters), len(longer)) == (2, 3)
    assert longer[:, -1].max() < 2.5 / filters.shape[-1]
    given = Config.of(config.model_dump(), {"model": {"num_channels": 2}})
    assert fastgtn.fit(graph, task, given).filters[0][:, 1].max() < 2.5 / filters.shape[-1]


@pytest.mark.trials
@pytest.mark.parametrize("model", ["fast_gtn", "gtn"])
def test_own_features_and_further_paths_that_are_noise_are_left_out(model: str) -> None:
    graph, task = make_random_schema(1011)  # the planted path ends at another node type, and four paths are chosen
    shape = {"name": model, "encoder": "linear", "aggregate": "mean", "activation": "relu"}
    given = {"graph": {"normalize": "row"}, "model": shape}
    config = Config.of(given, {"fit": {"weight_decay": 0.001, "consistency": 0.0}})
    inputs, settled = settle(Inputs.of(graph, config), task, config)
    assert (settled.model.start, settled.model.gamma, settled.model.num_channels) == ("first", 0.0, 1)
    assert len(inputs.decisions.screening.chosen) > 1
    tried = {trial.values["model.gamma"] for trial in inputs.decisions.trials}
    assert tried == {settled.model.trials(2)["model.gamma"][0], 0.0}


def test_a_first_start_gives_other_channels_all_relations(planted: tuple[HeteroData, NodeTask]) -> None:
    graph, task = planted
    values = {"model": {"start": "first", "num_channels": 3}, "fit": {"epochs": 1, "learning_rate": 1e-9}}
    filters = fastgtn.fit(graph, task, Config.of(SMALL, values)).filters[0]
    assert filters[:, 0].max(-1).min() > 0.9
    assert filters[:, 1:].max() < 2.5 / filters.shape[-1]


def test_a_far_start_has_hops_for_five_steps(planted: tuple[HeteroData, NodeTask]) -> None:
    relations = [Relation("a", "ab", "b"), Relation("b", "ba", "a"), IDENTITY]
    graph = Config.of({"graph": {"empty_rows": "self"}}).graph
    assert far_length(relations, "a", graph) == 15  # one of three relations leads on
    assert far_length(relations, "a", graph.model_copy(update={"empty_rows": "zero"})) == 10  # one of two
    assert far_length(relations, "a", graph.model_copy(update={"normalize": "none"})) == 10  # no self-loops are added
    assert far_length(relations[:2], "a", graph.model_copy(update={"empty_rows": "zero"})) == 5
    assert far_length([IDENTITY], "a", graph) == MOST_HOPS
    result = fastgtn.fit(*planted, Config.of(SMALL, {"model": {"start": "far"}}))
    filters = result.filters[0]
    assert filters.shape[:2] == (far_length(result.model.backbone.relations, planted[1].target, graph), 1)
    assert filters.max() < 2.5 / filters.shape[-1]


@pytest.mark.trials
@pytest.mark.parametrize("model", ["fast_gtn", "gtn"])
def test_labels_that_are_many_steps_away_are_reached(model: str) -> None:
    """A ring of papers without features in four sectors, one for each class; every 25th paper is labelled."""
    count = 600
    ring = torch.arange(count)
    graph = HeteroData()
    graph["paper"].num_nodes = count
    graph["paper", "cites", "paper"].edge_index = torch.stack([ring, (ring + 1) % count])
    graph["paper", "is_cited_by", "paper"].edge_index = torch.stack([(ring + 1) % count, ring])
    labels = ring // (count // 4)
    rest = ring[ring % 25 != 0]
    task = NodeTask.from_labels(
        "paper", "single", labels, train=ring[::25], val=rest[::2], test=rest[1::2], num_classes=4
    )
    given = {
        "graph": {"normalize": "row"},
        "model": {"name": model, "encoder": "linear", "gamma": 0.0, "aggregate": "mean", "activation": "relu"},
    }
    given |= {"fit": {"weight_decay": 0.001, "consistency": 0.0}}
    result = fastgtn.fit(graph, task, Config.of(given))
    assert result.config.model.start == "far"
    near = fastgtn.fit(graph, task, Config.of(given, {"model": {"start": "screened"}}))
    assert result.test["micro_f1"] > near.test["micro_f1"] + 0.1


@pytest.mark.trials
def test_a_trial_that_is_far_behind_has_one_seed(
    planted: tuple[HeteroData, NodeTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = {"screened": 0.9, "mixed": 0.89, "longer": 0.89, "first": 0.89, "far": 0.3}
    trained = []

    def pretended(inputs: Inputs, task: NodeTask, config: Config) -> State:
        model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
        trained.append(config.model.start)
        state = State.start(model, config.fit)
        state.best = Best(1, scores[config.model.start], 0.0, {})
        return state

    monkeypatch.setattr("fastgtn.training.prepare.trials.train_inputs", pretended)
    given = {
        "graph": {"normalize": "row", "empty_rows": "self"},
        "model": {"encoder": "linear", "gamma": 0.0, "aggregate": "mean", "activation": "relu"},
    }
    config = Config.of(SMALL, given, {"fit": {"weight_decay": 0.0, "consistency": 0.0}})
    settled = settle(Inputs.of(planted[0], config), planted[1], config)[1]
    assert settled.model.start == "screened"
    assert (trained.count("screened"), trained.count("mixed"), trained.count("far")) == (2, 2, 1)


@pytest.mark.trials
def test_normalisations_are_compared_again_where_another_start_wins(
    planted: tuple[HeteroData, NodeTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def pretended(inputs: Inputs, task: NodeTask, config: Config) -> State:
        model = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
        tried.append((config.graph.normalize, config.graph.empty_rows, config.model.start))
        state = State.start(model, config.fit)
        score = {"far": 0.7}.get(config.model.start, 0.6) + 0.2 * (tried[-1] == ("joint", "zero", "far"))
        state.best = Best(1, score, 0.0, {})
        return state

    monkeypatch.setattr("fastgtn.training.prepare.trials.train_inputs", pretended)
    given = {"model": {"encoder": "linear", "gamma": 0.0, "aggregate": "mean", "activation": "relu"}}
    config = Config.of(SMALL, given, {"fit": {"weight_decay": 0.0, "consistency": 0.0}})
    settled = settle(Inputs.of(planted[0], config), planted[1], config)[1]
    assert (settled.graph.normalize, settled.graph.empty_rows, settled.model.start) == ("joint", "zero", "far")
    assert {start for normalize, _, start in tried if normalize == "joint"} >= {"screened", "far"}
    assert len(tried) <= 2 * len(set(tried))  # no setting is trained again beyond its two seeds


@pytest.mark.trials
def test_without_time_open_keys_take_their_first_values(planted: tuple[HeteroData, NodeTask]) -> None:
    config = Config.of(SMALL, {"fit": {"trial_seconds": 0.0}})
    inputs, settled = settle(Inputs.of(planted[0], config), planted[1], config)
    assert [trial.score for trial in inputs.decisions.trials] == [None]
    assert (settled.model.start, settled.model.encoder, settled.graph.normalize) == ("screened", "linear", "row")


@pytest.mark.trials
def test_where_no_key_is_open_nothing_is_trained_before(
    planted: tuple[HeteroData, NodeTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> State:
        raise AssertionError("a trial without anything to compare")

    monkeypatch.setattr("fastgtn.training.prepare.trials.train_inputs", refused)
    config = Config.of({"model": {"name": "gcn"}}, SMALL)
    inputs = settle(Inputs.of(planted[0], config), planted[1], config)[0]
    assert inputs.decisions.trials == ()
