"""Facts about the search of settings of link models: what it may see, what it writes, and that it resumes."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import archive
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.links.edges import contains, pair_keys
from fastgtn.links.settings import LinkSettings
from fastgtn.links.task import LinkTask
from fastgtn.links.train import train_links
from fastgtn.links.tuning import link_space, tune_links
from fastgtn.tuning.trials import Budget

FIXED = {"model": {"hidden": 4, "num_layers": 1}, "fit": {"epochs": 3}}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tuning") / "shop.npz"
    archive.write(place, make_planted_links(users=40, items=30, seed=0), None)
    return place


def rows_of(folder: Path) -> list[tuple[str, ...]]:
    with (folder / "trials.csv").open() as file:
        return [tuple(v for k, v in row.items() if k not in ("trial", "seconds")) for row in csv.DictReader(file)]


def test_a_search_of_encoders_resumes_and_its_best_settings_have_the_score_that_chose_them(
    shop: Path, tmp_path: Path
) -> None:
    values = {"dataset": str(shop), "link": {"relation": "buys"}, **FIXED}
    settings = LinkSettings.of(values | {"model": FIXED["model"] | {"name": "rgcn"}})
    tune_links(settings, out=tmp_path / "whole", budget=Budget(3), fixed=FIXED)
    tune_links(settings, out=tmp_path / "parts", budget=Budget(1), fixed=FIXED)
    result = tune_links(settings, out=tmp_path / "parts", budget=Budget(3), fixed=FIXED)
    assert rows_of(tmp_path / "parts") == rows_of(tmp_path / "whole")
    best = LinkSettings.from_toml(tmp_path / "parts" / "best.toml")
    assert best.values["model"]["hidden"] == 4
    trained = train_links(best, out=tmp_path / "run")
    assert trained["val"][result["metric"]]["mean"] == pytest.approx(result["best"]["score"], abs=1e-12)


def test_the_command_searches_the_joined_metapaths(shop: Path, tmp_path: Path) -> None:
    words = ["tune", "--graph", str(shop), "--task", "link", "--link", "buys", "--trials", "2"]
    answer = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "s"), "--json"], catch_exceptions=False)
    found = json.loads(answer.stdout)
    assert (found["model"], found["metric"], found["trials"]) == ("joined_paths", "ndcg@20", 2)
    text = (tmp_path / "s" / "best.toml").read_text()
    assert text.startswith("# joined_paths on shop.   fastgtn train <this file> --runs 10\n")
    said = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "s")], catch_exceptions=False).stdout
    assert "best val NDCG@20" in " ".join(said.split())


def test_the_space_has_the_keys_of_links_and_of_the_encoder() -> None:
    settings = LinkSettings.of({"dataset": "shop", "model": {"name": "fast_gtn"}})
    space, first = link_space(settings, {"model": {"decoder": "dot"}})
    assert {"link.longest", "model.ends", "fit.learning_rate", "model.path_length"} <= space.keys() == first.keys()
    assert "model.decoder" not in space
    assert set(link_space(LinkSettings.of({"dataset": "shop"}), {})[0]) == {"link.longest"}


def test_a_task_without_test_has_no_test_link_in_any_graph() -> None:
    task = LinkTask.from_graph(make_planted_links(users=40, items=30, seed=0), "buys", seed=0)
    blind = task.without_test()
    assert not len(blind.test)
    hidden = np.sort(pair_keys(task.test.links, task.num_targets))
    for stage in ("val", "test", "use"):
        edges = blind.graph_at(stage)["user", "buys", "item"].edge_index.numpy()  # type: ignore[arg-type]
        assert not contains(hidden, pair_keys(edges, task.num_targets)).any()
