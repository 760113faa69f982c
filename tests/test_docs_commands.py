"""The commands in the code blocks of the docs run in the order of the text, on small graphs under the same names."""

import re
import runpy
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from quick_config import quick
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import NodeTask, archive, make_planted
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.runs import train

ROOT = Path(__file__).parents[1]
PAGES = (
    "index",
    "metapaths",
    "report",
    "training",
    "links",
    "importing",
    "data",
    "large",
    "howto/gpu",
    "howto/imbalance",
    "howto/numbers",
    "tutorials/own-tables",
    "tutorials/read-the-answer",
    "tutorials/reproduce-the-paper",
)
ELSEWHERE = {  # pages whose commands another test runs
    "benchmarks": "tests/bench/test_tables.py",
    "serving": "tests/scoring/test_serve.py",
    "tutorials/bad-loans": "tests/test_tutorials.py",
    "tutorials/film-scores": "tests/test_tutorials.py",
    "tutorials/recommend-films": "tests/test_tutorials.py",
}
SKIPPED = {  # commands that need files, devices or minutes, and the test that runs them in small
    "data import KIND": "tests/data/importers/test_importers.py",
    "data import gtn IMDB": "tests/data/importers/test_importers.py",
    "data make oag-cs": "tests/data/synthetic/test_oag.py",
    "train --graph shop.npz --task link --link buys --model rgcn": "tests/links/test_encoders.py",
    "--device cuda": "tests/training/fit/test_missing_device.py",
    "bench nodes --datasets": "tests/bench/test_tables.py",
    "bench ablation --datasets": "tests/bench/test_tables.py",
    "bench efficiency --datasets": "tests/bench/test_measured.py",
    "bench exactness --datasets": "tests/bench/test_measured.py",
}
SMALLER = {  # what a test must replace: placeholders, ids, sizes
    " --node ID": " --node 1028",
    " --node 5": " --node a-05",
    " RUN_OR_ARCHIVE": " my.npz",
    " RUN ": " runs/tables ",
    "--class 0": "--class 'topic 0'",
    "--runs 10": "--runs 2",
    "--authors 5000 --papers 8000": "--authors 100 --papers 100",
    "oag-nn --out g": "oag-nn --out g --scale 0.01",
    "--dataset acm": "--dataset dblp",
    "train --dataset": "train --set fit.epochs=2 --dataset",
    "train --graph my": "train --set fit.epochs=2 --graph my",
    "train --graph g": "train --set fit.epochs=2 --graph g",
    "train --graph shops": "train --set fit.epochs=2 --graph shops",
    "train --graph planted": "train --set fit.epochs=2 --graph planted",
    "--path APVPA --out": "--path APVPA --authors 100 --papers 100 --out",
    "--model fast_gtn --set model.decoder": "--model fast_gtn --set fit.epochs=2 --set model.decoder",
    "train my.toml": "train my.toml --set fit.epochs=2",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files and folders that the pages speak of."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "examples" / "own_graph", folder, dirs_exist_ok=True)
    shutil.copy(folder / "graph.toml", folder / "new.toml")
    graph, task = make_planted("APA", authors=60, papers=80, venues=6, terms=8, features=4, seed=1)
    graph["author"].node_id = np.array([f"a-{i:02}" for i in range(60)])
    (folder / "data").mkdir()
    for name in ("data/dblp.npz", "data/imdb.npz", "my.npz", "new.npz"):
        archive.write(folder / name, graph, task)
    for name, model in (("imdb-fast_gtn-0", "fast_gtn"), ("imdb-gtn-0", "gtn"), ("dblp-gtn-0", "gtn")):
        train(quick(folder / "my.npz", model={"name": model}, fit={"epochs": 2, "runs": 2}), out=folder / "runs" / name)
    archive.write(folder / "shop.npz", make_planted_links("USI", users=60, items=30), None)
    (folder / "my.toml").write_text('dataset = "my.npz"\n')
    (folder / "ids.csv").write_text("node\na-07\na-03\n")
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_run(page: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path(shutil.copytree(place, tmp_path / "here"))
    monkeypatch.chdir(here)
    monkeypatch.setenv("FASTGTN_DATA", str(here / "data"))
    if page in ("index", "importing"):  # these pages begin with the tables
        (here / "my.npz").unlink()
        (here / "new.npz").unlink()
    if page == "howto/imbalance":  # an aim is for two classes
        archive.write("my.npz", *make_planted("APA", authors=60, papers=80, classes=2, features=4), overwrite=True)
    if page == "howto/numbers":
        graph, _ = archive.read("my.npz")
        paid = np.exp(np.random.default_rng(0).normal(size=60))
        task = NodeTask.from_labels("author", "number", paid, train=range(40), val=range(40, 60))
        archive.write("my.npz", graph, task, overwrite=True)
    count = 0
    for line in commands((ROOT / "docs" / f"{page}.md").read_text()):
        if page == "index" and "--graph new.npz" in line:
            shutil.copy("my.npz", "new.npz")
        if "runs/tables" in line:
            invoke("fastgtn train --graph my.npz --out runs/tables --set fit.epochs=2")
        invoke(line)
        count += 1
    assert count


def test_the_commands_of_the_example_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of examples/own_graph/README.md, whose archives are equal."""
    example = tmp_path / "examples" / "own_graph"
    shutil.copytree(ROOT / "examples" / "own_graph", example)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["other_formats.py"])
    runpy.run_path(str(example / "other_formats.py"), run_name="__main__")
    for line in commands((example / "README.md").read_text()):
        invoke(line)
    assert len({file.read_bytes() for file in tmp_path.glob("shops*.npz")}) == 1
    assert len(list(tmp_path.glob("shops*.npz"))) == 3


def test_no_page_and_no_command_is_left_out() -> None:
    """A new page with commands is run here, or says which test runs it; so does every command that is passed over."""
    docs = ROOT / "docs"
    pages = {str(p.relative_to(docs).with_suffix("")): lines(p.read_text()) for p in docs.rglob("*.md")}
    assert {page for page, found in pages.items() if found} == {*PAGES, *ELSEWHERE}
    every = [line for page in PAGES for line in pages[page]]
    assert [words for words in SKIPPED if not any(words in line for line in every)] == []
    assert [file for file in (*ELSEWHERE.values(), *SKIPPED.values()) if not (ROOT / file).is_file()] == []


def invoke(line: str) -> None:
    answer = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
    assert answer.exit_code == 0, f"{line}: {answer.output} {answer.exception}"


def lines(text: str) -> list[str]:
    """The lines of code blocks that call fastgtn."""
    fences = re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    found = [
        line.strip() for language, block in fences if not language for line in block.replace("\\\n", " ").splitlines()
    ]
    return [line for line in found if line.startswith(("fastgtn ", "$ fastgtn "))]


def commands(text: str) -> list[str]:
    """The same lines without those that are passed over, with what a test must replace."""
    found = [line for line in lines(text) if not any(words in line for words in SKIPPED)]
    for before, after in SMALLER.items():
        found = [line.replace(before, after) for line in found]
    return found
