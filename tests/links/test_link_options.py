"""Options of commands about links: which ones apply, and what a wrong one is answered with."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import archive
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.errors import InputError
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
        (["--link", "buys", "--set", "fit.runs=0"], "fit.runs must be a number of seeds from 1 on, but got 0"),
    ],
)
def test_options_that_do_not_apply_are_refused(shop: Path, tmp_path: Path, words: list[str], message: str) -> None:
    out = tmp_path / "run"
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(app, ["train", "--graph", str(shop), *words, "--out", str(out)], catch_exceptions=False)
    assert not out.exists()


def test_a_config_says_how_many_seeds_are_trained(shop: Path, tmp_path: Path) -> None:
    run("train", "--graph", shop, "--link", "buys", "--set", "fit.runs=2", "--out", tmp_path / "run")
    assert sorted(folder.name for folder in (tmp_path / "run").glob("seed-*")) == ["seed-0", "seed-1"]
    assert LinkSettings.of({"dataset": "shop", "fit": {"runs": 3}}).runs == 3
