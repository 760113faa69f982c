"""Options of commands about links: which ones apply, and what a wrong one is answered with."""

import csv
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import archive
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.errors import InputError
from fastgtn.links import load_links
from fastgtn.links.settings import LinkSettings


def run(*words: object) -> str:
    answer = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("options") / "shop.npz"
    archive.write(place, make_planted_links(users=60, items=40, seed=0), None)
    return place


def test_an_option_of_links_alone_chooses_the_link_task(shop: Path, tmp_path: Path) -> None:
    assert "task    links user-buys-item" in run("train", "--graph", shop, "--link", "buys", "--out", tmp_path / "run")
    assert "USI" in run("screen", "--graph", shop, "--link", "buys")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--link", "buys", "--task", "node"], "--link is an option of link tasks: omit it, or choose --task link"),
        (["--link", "buys", "--aim", "precision >= 0.9"], "--aim chooses a threshold between classes of nodes"),
        (["--link", "buys", "--runs", "0"], "a run has at least one seed, but got runs = 0"),
        (["--link", "buys", "--set", "fit.runs=0"], "fit.runs must be a whole number of seeds, at least 1, but got 0"),
    ],
)
def test_options_that_do_not_apply_are_refused(shop: Path, tmp_path: Path, words: list[str], message: str) -> None:
    out = tmp_path / "run"
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(app, ["train", "--graph", str(shop), *words, "--out", str(out)], catch_exceptions=False)
    assert not out.exists()


def test_a_command_that_trained_nothing_can_be_corrected_and_repeated(shop: Path, tmp_path: Path) -> None:
    words = ["train", "--graph", str(shop), "--out", str(tmp_path / "run"), "--link"]
    with pytest.raises(InputError, match='no relation "bys"; did you mean "buys"'):
        CliRunner().invoke(app, [*words, "bys"], catch_exceptions=False)
    run(*words, "buys")
    with pytest.raises(InputError, match="already contains files"):
        CliRunner().invoke(app, [*words, "buys"], catch_exceptions=False)


def test_a_config_says_how_many_seeds_are_trained(shop: Path, tmp_path: Path) -> None:
    run("train", "--graph", shop, "--link", "buys", "--set", "fit.runs=2", "--out", tmp_path / "run")
    assert sorted(folder.name for folder in (tmp_path / "run").glob("seed-*")) == ["seed-0", "seed-1"]
    assert LinkSettings.of({"dataset": "shop", "fit": {"runs": 3}}).runs == 3


@pytest.fixture(scope="module")
def trained(shop: Path) -> Path:
    run("train", "--graph", shop, "--link", "buys", "--out", shop.parent / "run")
    return shop.parent / "run"


def refused(*words: object, match: str) -> None:
    with pytest.raises(InputError, match=match):
        CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_new_partners_of_some_sources_are_those_of_all(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("u7\nu3\n")
    run("predict", trained, "--top", "4", "--out", tmp_path / "all.csv")
    run("predict", trained, "--top", "4", "--nodes", tmp_path / "ids.txt", "--out", tmp_path / "some.csv")
    every, some = (list(csv.DictReader((tmp_path / name).open())) for name in ("all.csv", "some.csv"))
    assert some == [row for user in ("u7", "u3") for row in every if row["user"] == user]
    (tmp_path / "ids.txt").write_text("x7\nx8\n")
    words = ("predict", trained, "--nodes", tmp_path / "ids.txt", "--out", tmp_path / "no.csv")
    refused(*words, match="2 of 2 ids are not those of user nodes")


def test_a_longer_list_than_there_are_targets_has_all_that_are_new(trained: Path, tmp_path: Path) -> None:
    said = run("predict", trained, "--top", "1000000000", "--out", tmp_path / "all.csv")
    known = load_links(trained, hides=False).task.known_rows("use")
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 1 + 60 * 40 - known.nnz
    assert "the 40 best new item nodes of 60 user nodes" in said


def test_predict_refuses_what_only_models_of_nodes_have(trained: Path, tmp_path: Path) -> None:
    words = ("predict", trained, "--out", tmp_path / "no.csv")
    refused(*words, "--tables", "new.toml", match=r"fastgtn data build new.toml --like OLD.npz --out NEW.npz")
    refused(
        *words, "--embeddings", tmp_path / "e.npz", match="a model of links: predict writes a table of new partners"
    )


def test_screening_lists_as_many_paths_as_wanted(shop: Path, tmp_path: Path) -> None:
    task = ("screen", "--graph", shop, "--link", "buys", "--longest", "2")
    lines = run(*task, "--top", "2").splitlines()
    assert len(lines) == 4
    assert lines[3].startswith("paths   2 of ")
    refused(*task, "--set", "link.longst=2", match='no config key "link.longst"')
    refused(*task, "--plot", tmp_path / "plot.png", match="--plot draws the screening of labels")


def test_the_first_seed_of_a_run_is_the_lowest(trained: Path, tmp_path: Path) -> None:
    for seed in (9, 10):
        shutil.copytree(trained / "seed-0", tmp_path / f"seed-{seed}")
    settings = (tmp_path / "seed-9" / "link.json").read_text().replace('"seed": 0', '"seed": 9', 1)
    (tmp_path / "seed-9" / "link.json").write_text(settings)
    assert load_links(tmp_path).task.seed == 9
