"""Trials decide the keys that are open: what is compared, with how many seeds, and what a run keeps of it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

import fastgtn
from fastgtn.cli import app
from fastgtn.config import Config
from fastgtn.data import NodeTask, archive, make_random_schema
from fastgtn.nn.meta_path.options import MetaPathOptions
from fastgtn.runs.learned.decided import stored_decisions
from fastgtn.runs.train import train
from fastgtn.training.build import Inputs, build_model
from fastgtn.training.loop import Best, State
from fastgtn.training.prepare.setting import margin
from fastgtn.training.prepare.settle import settle

SMALL = {"model": {"hidden": 8}, "fit": {"epochs": 3}}
ONLY_STARTS = {
    "graph": {"normalize": "row", "empty_rows": "self"},
    "model": {"encoder": "linear", "gamma": 0.0, "aggregate": "mean", "activation": "relu"},
    "fit": {"weight_decay": 0.0, "consistency": 0.0},
}
Trained = list[Config]
Pretend = Callable[[Callable[[Config], float]], Trained]

pytestmark = pytest.mark.trials


@pytest.fixture(scope="module")
def planted() -> tuple[HeteroData, NodeTask]:
    return make_random_schema(0, types=4, relations=8, steps=2, targets=300)


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Replaces trainings by a score for each config, and returns the list of those that were asked for."""

    def replaced(score: Callable[[Config], float]) -> Trained:
        trained: Trained = []

        def pretended(inputs: Inputs, task: NodeTask, config: Config) -> State:
            trained.append(config)
            state = State.start(
                build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes), config.fit
            )
            state.best = Best(1, score(config), 0.0, {})
            return state

        monkeypatch.setattr("fastgtn.training.prepare.setting.train_inputs", pretended)
        return trained

    return replaced


def starts(trained: Trained) -> list[str]:
    return [config.model.start for config in trained]


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


def test_a_trial_that_is_far_behind_has_one_seed(planted: tuple[HeteroData, NodeTask], pretend: Pretend) -> None:
    scores = {"screened": 0.9, "mixed": 0.89, "longer": 0.89, "first": 0.89, "far": 0.3}
    trained = pretend(lambda config: scores[config.model.start])
    config = Config.of(SMALL, ONLY_STARTS)
    settled = settle(Inputs.of(planted[0], config), planted[1], config)[1]
    assert settled.model.start == "screened"
    found = starts(trained)
    assert (found.count("screened"), found.count("mixed"), found.count("far")) == (2, 2, 1)


@pytest.mark.parametrize(("start", "empty_rows"), [("first", "self"), ("screened", "zero")])
def test_gtn_finds_a_normalisation_that_is_best_only_with_another_start_or_empty_rows(
    pretend: Pretend, start: str, empty_rows: str
) -> None:
    graph, task = make_random_schema(1011)  # four paths are chosen

    def score(config: Config) -> float:
        if (config.graph.normalize, config.model.start, config.graph.empty_rows) == ("row", start, empty_rows):
            return 0.95
        return 0.85 if config.graph.normalize == "none" else 0.8

    pretend(score)
    config = Config.of(SMALL, {"model": {"name": "gtn"}})
    settled = settle(Inputs.of(graph, config), task, config)[1]
    assert (settled.graph.normalize, settled.model.start, settled.graph.empty_rows) == ("row", start, empty_rows)


def test_with_little_time_gtn_combines_normalisations_with_nothing_else(pretend: Pretend) -> None:
    graph, task = make_random_schema(1011)
    counts = []
    for seconds in (1000.0, 15.0):
        trained = pretend(lambda _: 0.8)
        config = Config.of({"model": {"name": "gtn"}}, {"fit": {"trial_seconds": seconds}})
        settle(Inputs.of(graph, config), task, config)
        pairs = {(one.graph.normalize, one.model.start) for one in trained if one.graph.empty_rows == "self"}
        counts.append(len([pair for pair in pairs if pair[1] == "first"]))
        assert {start for _, start in pairs} >= {"screened", "first", "mixed"}
    assert counts == [3, 1]


@pytest.mark.parametrize(("lucky", "winner"), [(2, "screened"), (6, "mixed")])
def test_a_value_is_adopted_only_if_more_seeds_confirm_it(
    planted: tuple[HeteroData, NodeTask], pretend: Pretend, lucky: int, winner: str
) -> None:
    """The mixed start has better scores with the first seeds; if only two have them, that was luck."""

    better, worse = 0.6 + 1.5 * margin(0.6, planted[1]), 0.6 - 2 * margin(0.6, planted[1])

    def score(config: Config) -> float:
        if config.model.start != "mixed":
            return 0.6
        return better if config.fit.seed < lucky else worse

    trained = pretend(score)
    config = Config.of(SMALL, ONLY_STARTS)
    inputs, settled = settle(Inputs.of(planted[0], config), planted[1], config)
    assert settled.model.start == winner
    found = starts(trained)
    # luck is over with the third seed
    assert (found.count("screened"), found.count("mixed"), found.count("longer")) == (
        (6, 6, 2) if lucky == 6 else (3, 3, 2)
    )
    mixed = next(trial for trial in inputs.decisions.trials if trial.values["model.start"] == "mixed")
    assert mixed.score == pytest.approx(better if lucky == 6 else (2 * better + worse) / 3)
    assert mixed.kept == (lucky == 6)


def test_an_obvious_difference_needs_no_further_seeds(planted: tuple[HeteroData, NodeTask], pretend: Pretend) -> None:
    obvious = 0.02 + 8.5 * margin(0.02, planted[1])
    trained = pretend(lambda config: obvious if config.model.start == "mixed" else 0.02)
    config = Config.of(SMALL, ONLY_STARTS)
    settled = settle(Inputs.of(planted[0], config), planted[1], config)[1]
    assert settled.model.start == "mixed"
    assert (starts(trained).count("screened"), starts(trained).count("mixed")) == (2, 2)


def test_further_seeds_are_trained_only_where_the_time_is_left(
    planted: tuple[HeteroData, NodeTask], pretend: Pretend
) -> None:
    better = 0.6 + 1.5 * margin(0.6, planted[1])
    trained = pretend(lambda config: better if config.model.start == "mixed" else 0.6)
    config = Config.of(SMALL, ONLY_STARTS, {"fit": {"trial_seconds": 0.13}})  # of which a training takes about 0.01
    settled = settle(Inputs.of(planted[0], config), planted[1], config)[1]
    assert settled.model.start == "mixed"
    assert 2 < starts(trained).count("mixed") < 6


def test_normalisations_are_compared_again_where_another_start_wins(
    planted: tuple[HeteroData, NodeTask], pretend: Pretend
) -> None:
    def score(config: Config) -> float:
        best = (config.graph.normalize, config.graph.empty_rows, config.model.start) == ("joint", "zero", "far")
        return {"far": 0.7}.get(config.model.start, 0.6) + 0.2 * best

    trained = pretend(score)
    given = {"model": ONLY_STARTS["model"], "fit": ONLY_STARTS["fit"]}
    config = Config.of(SMALL, given)
    settled = settle(Inputs.of(planted[0], config), planted[1], config)[1]
    assert (settled.graph.normalize, settled.graph.empty_rows, settled.model.start) == ("joint", "zero", "far")
    tried = [(config.graph.normalize, config.graph.empty_rows, config.model.start) for config in trained]
    assert {start for normalize, _, start in tried if normalize == "joint"} >= {"screened", "far"}
    assert max(tried.count(one) for one in tried) <= 6  # no setting is trained again beyond its seeds


def test_without_time_open_keys_take_their_first_values(planted: tuple[HeteroData, NodeTask]) -> None:
    config = Config.of(SMALL, {"fit": {"trial_seconds": 0.0}})
    inputs, settled = settle(Inputs.of(planted[0], config), planted[1], config)
    assert [trial.score for trial in inputs.decisions.trials] == [None]
    assert (settled.model.start, settled.model.encoder, settled.graph.normalize) == ("screened", "linear", "row")


def test_where_no_key_is_open_nothing_is_trained_before(
    planted: tuple[HeteroData, NodeTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> State:
        raise AssertionError("a trial without anything to compare")

    monkeypatch.setattr("fastgtn.training.prepare.setting.train_inputs", refused)
    config = Config.of({"model": {"name": "gcn"}}, SMALL)
    inputs = settle(Inputs.of(planted[0], config), planted[1], config)[0]
    assert inputs.decisions.trials == ()


def test_more_epochs_are_tried_after_everything_else(planted: tuple[HeteroData, NodeTask], pretend: Pretend) -> None:
    trained = pretend(lambda config: 0.6 + 0.1 * (config.fit.epochs == 300))
    config = Config.of({"model": {"hidden": 8}}, ONLY_STARTS)
    settled = settle(Inputs.of(planted[0], config), planted[1], config)[1]
    assert settled.fit.epochs == 300
    tried = [one.fit.epochs for one in trained]
    first = tried.index(300)
    assert set(tried[:first]) == {100}
    assert {one.model.start for one in trained[first:]} == {"screened"}
    given = Config.of({"model": {"hidden": 8}}, ONLY_STARTS, {"fit": {"epochs": 7}})
    trained.clear()
    settle(Inputs.of(planted[0], given), planted[1], given)
    assert {one.fit.epochs for one in trained} == {7}


def test_the_last_combination_starts_without_strong_decay(
    planted: tuple[HeteroData, NodeTask], pretend: Pretend
) -> None:
    trained = pretend(lambda config: 0.6 + 0.2 * (config.fit.consistency == 1.0))
    config = Config.of(SMALL, {"graph": {"normalize": "row", "empty_rows": "self"}, "model": {"gamma": 0.0}})
    settled = settle(Inputs.of(planted[0], config), planted[1], config)[1]
    assert (settled.fit.consistency, settled.fit.weight_decay) == (1.0, 0.01)
    together = [one for one in trained if (one.model.start, one.model.aggregate) == ("longer", "concat")]
    assert {(one.fit.consistency, one.fit.weight_decay) for one in together} == {(0.0, 0.001)}


def test_the_number_of_epochs_that_trials_decide_is_printed(
    planted: tuple[HeteroData, NodeTask], pretend: Pretend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    archive.write(tmp_path / "g.npz", *planted)
    pretend(lambda config: 0.6 + 0.3 * (config.fit.epochs == 4))
    monkeypatch.setattr(MetaPathOptions, "combinations", lambda _: ({"fit.epochs": 4},))
    settings = [f"{section}.{key}={value}" for section, keys in ONLY_STARTS.items() for key, value in keys.items()]
    words = [word for setting in ("model.hidden=8", *settings) for word in ("--set", setting)]
    result = CliRunner().invoke(
        app, ["train", "--graph", str(tmp_path / "g.npz"), "--out", str(tmp_path / "run"), *words]
    )
    assert result.exit_code == 0
    assert re.search(r"fit +epoch \d of 4 ·", result.stdout)
