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
from fastgtn.training.build import Inputs
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
        ({"fit.clip": 10**9}, 'the config does not leave "fit.clip" to trials'),
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
