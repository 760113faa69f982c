"""How far an answer is learned: what the verdict says, and when it says nothing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

import fastgtn
from fastgtn.cli import app
from fastgtn.config import Config
from fastgtn.data import NodeTask, archive, make_random_schema
from fastgtn.explain.verdict import Control, Learned
from fastgtn.runs import Result
from fastgtn.runs.learned.control import train_control
from fastgtn.training.build import Inputs
from fastgtn.training.fit import Trained, fit_inputs

SMALL = {"model": {"hidden": 16, "encoder": "linear", "start": "screened"}, "fit": {"epochs": 30}}


@pytest.fixture(scope="module")
def planted() -> tuple[HeteroData, NodeTask]:
    return make_random_schema(0, types=4, relations=8, steps=2, targets=300)


@pytest.fixture(scope="module")
def result(planted: tuple[HeteroData, NodeTask]) -> Result:
    return fastgtn.fit(*planted, Config.of(SMALL))


@pytest.mark.parametrize(
    ("learned", "control", "noise", "words"),
    [
        (0.9, 0.8, 0.02, "The choice of paths is worth 10.00 points"),
        (0.8, 0.9, 0.02, "The choice of paths costs 10.00 points"),
        (0.9, 0.89, 0.02, "There is no evidence that the choice of paths matters"),
    ],
)
def test_the_verdict_follows_the_control(learned: float, control: float, noise: float, words: str) -> None:
    verdict = Learned(0.4, control=Control("micro_f1", "test", learned, control, noise)).verdict
    assert words in verdict
    assert "40 % of the entropy of uniform filters" in verdict


def test_paths_with_signal_are_named_where_no_choice_is_needed() -> None:
    control = Control("micro_f1", "test", 0.9, 0.89, 0.02)
    assert (
        "Screening found paths that predict the labels" in Learned(0.4, 3, 3, paths_tell=True, control=control).verdict
    )
    assert "Screening found" not in Learned(0.4, 1, 3, paths_tell=False, control=control).verdict


def test_a_target_that_no_relation_reaches_has_no_paths() -> None:
    alone = HeteroData()
    alone["item"].x, alone["shop"].x = torch.randn(60, 3), torch.randn(9, 2)
    alone["item", "bought_in", "shop"].edge_index = torch.stack([torch.arange(60), torch.arange(60) % 9])
    task = NodeTask.from_labels(
        "item", "single", torch.arange(60) % 2, train=range(30), val=range(30, 45), test=range(45, 60)
    )
    found = fastgtn.fit(alone, task, SMALL)
    assert found.metapaths(3).learned.verdict.startswith("No meta-path exists: no relation brings messages")


def test_trainings_that_differ_by_their_seed_make_the_verdict_careful(
    planted: tuple[HeteroData, NodeTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = fastgtn.fit(*planted, Config.of(SMALL, {"fit": {"epochs": 2}}))
    score, trained = learned.test[learned.chosen_by], []

    def pretended(inputs: Inputs, task: NodeTask, config: Config, **options: bool) -> Trained:
        trained.append(config.fit.seed)
        found = fit_inputs(inputs, task, config, **options)
        return replace(found, test={learned.chosen_by: score - 0.3 + spread * len(trained)})

    monkeypatch.setattr("fastgtn.runs.learned.control.fit_inputs", pretended)
    spread = 0.001
    steady = train_control(learned)
    assert steady.matters
    assert trained == [0, 1000, 2000]
    trained.clear()
    spread = 0.1
    unsteady = train_control(learned)
    assert unsteady.control == pytest.approx(score - 0.1)
    assert unsteady.noise is not None
    assert unsteady.noise >= 2 * (0.1**2 * 4 / 3) ** 0.5
    assert not unsteady.matters


def test_without_a_control_nothing_is_claimed() -> None:
    verdict = Learned(0.4, num_significant=3).verdict
    assert "Whether the choice of paths matters has not been tested" in verdict
    assert "--control" in verdict


def test_a_planted_path_is_worth_something(planted: tuple[HeteroData, NodeTask], result: Result) -> None:
    control = result.control()
    assert control.split == "test"
    assert control.seeds == 3
    assert control.learned == result.test[result.chosen_by]
    assert control.matters
    assert control.difference > 0.1
    first = result.metapaths(3)[0]
    assert [list(relation) for relation in first.path.relations] == planted[0].planted["relations"]
    assert first.lift is not None
    assert first.lift > 3
    assert first.p_value is not None
    assert first.p_value <= 0.05


def test_permuted_labels_end_in_nothing_found() -> None:
    graph, task = make_random_schema(1, types=3, relations=6, permuted=True)
    ranking = fastgtn.fit(graph, task, Config.of(SMALL, {"model": {"start": "auto"}})).metapaths(3)
    assert ranking.learned is not None
    assert ranking.learned.found_nothing
    assert ranking.learned.verdict.startswith("Nothing was found")


def test_the_json_has_all_evidence(planted: tuple[HeteroData, NodeTask], tmp_path: Path) -> None:
    archive.write(tmp_path / "g.npz", *planted)
    config = Config.of(SMALL, {"dataset": str(tmp_path / "g.npz"), "fit": {"epochs": 3}})
    fastgtn.runs.train(config, out=tmp_path / "run")
    done = CliRunner().invoke(app, ["explain", str(tmp_path / "run"), "--control", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {"share", "uniform_share", "lift", "contribution", "without", "p_value"} <= found["metapaths"][0].keys()
    assert {"entropy", "control", "difference"} <= found["learned"].keys()
    assert found["learned"]["control"] is not None
