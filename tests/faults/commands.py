"""The commands that are hurt: how each is started or resumed, and what it must have made at its end."""

import hashlib
import json
import shutil
import sqlite3
import tomllib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from faults.doors import CSV, GRAPH_TOML

from fastgtn.cli import main
from fastgtn.data import archive, make_planted
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.runs.checkpoint import read_tensors

QUICK = ("--set", "fit.epochs=5", "--set", "fit.checkpoint_every=1", "--set", "fit.average=0.9")
SMALL = ("--set", "model.hidden=8", "--set", "model.path_length=2", "--set", "model.num_channels=2")
TRAIN = (*QUICK, *SMALL, "--set", "model.start=uniform")
TUNE = ("--model", "gcn", "--trials", "2", *QUICK, "--set", "model.hidden=8", "--set", "model.num_layers=2")
LINK = ("--task", "link", "--link", "buys")
LINK_TUNE = ("--model", "rgcn", "--trials", "2", *QUICK, "--set", "model.hidden=4", "--set", "model.num_layers=1")
BENCH = ("bench", "nodes", "--models", "mlp", "--runs", "2")

Facts = dict[str, str]


@dataclass(frozen=True)
class Command:
    """A command that writes into a folder, and that started again there ends what it began.

    Args:
        argv: Its words, from the folder of its inputs and the folder that it writes into.
        results: Hashes of everything in the folder that no clock decides.
        finished: Names of the parts that are complete, each with what must stay as it is.
        shares: Two processes may be started on the same folder at the same time.
        sweeps: Left-overs of killed processes are deleted at the next start, whatever their age.
        program: What runs with these words as `sys.argv`.
    """

    name: str
    argv: Callable[[Path, Path], list[str]]
    results: Callable[[Path], Facts]
    finished: Callable[[Path], Facts]
    shares: bool = True
    sweeps: bool = True
    program: Callable[[], object] = main


def make_inputs(folder: Path) -> None:
    """A graph, tables, and what describes them."""
    folder.mkdir()
    archive.write(folder / "g.npz", *make_planted("APA", authors=60, papers=80, venues=6, terms=12, features=8, seed=1))
    archive.write(folder / "shop.npz", make_planted_links(users=30, items=20, seed=0), None)
    (folder / "t.csv").write_text(CSV)
    (folder / "graph.toml").write_text(GRAPH_TOML.replace("TABLE", "t.csv"))


def run_results(folder: Path) -> Facts:
    """Histories, predictions and weights of all runs below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.name in ("history.jsonl", "predictions.parquet"):
            found[str(path.relative_to(folder))] = sha(path.read_bytes())
        elif path.name == "model.safetensors":
            tensors = read_tensors(path)[0]
            data = b"".join(name.encode() + tensors[name].numpy().tobytes() for name in sorted(tensors))
            found[str(path.relative_to(folder))] = sha(data)
    return found


def finished_seeds(folder: Path) -> Facts:
    """Every finished seed, and when its result was written: it must not be trained twice."""
    return {str(path.relative_to(folder)): str(path.stat().st_mtime_ns) for path in folder.rglob("seed-*/result.json")}


def ended_trials(folder: Path) -> Facts:
    """The settings and scores of all ended trials of a search."""
    file = folder / "search" / "study.db"
    if not file.exists():
        return {}
    with TemporaryDirectory() as apart:
        # a copy: SQLite first takes back what a killed process had half written, which may not change the search itself
        for part in file.parent.glob("study.db*"):
            shutil.copy(part, apart)
        with closing(sqlite3.connect(Path(apart) / file.name)) as database:
            try:
                rows = database.execute(
                    "SELECT trials.trial_id, param_name, param_value, value FROM trials "
                    "JOIN trial_params USING (trial_id) JOIN trial_values USING (trial_id) WHERE state = 'COMPLETE'"
                ).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):  # killed before the search began
                    return {}
                raise
    trials: dict[int, list[Any]] = {}
    for trial, *facts in rows:
        trials.setdefault(trial, []).append(facts)
    return {sha(json.dumps(sorted(facts)).encode()): "" for facts in trials.values()}


def search_results(folder: Path) -> Facts:
    """The ended trials of a search, and the config that it recommends."""
    return ended_trials(folder) | files("search/best.toml")(folder)


def files(*names: str) -> Callable[[Path], Facts]:
    """Hashes of files that are whole or absent."""

    def read(folder: Path) -> Facts:
        return {name: sha(without_today(folder / name)) for name in names if (folder / name).exists()}

    return read


def without_today(path: Path) -> bytes:
    """The content of a file. A page names the day on which it was written: that day alone reads DATE.

    Midnight must not be mistaken for a fault, and every other date is content. The page is made before its file is
    complete, so the day may be the one before.
    """
    data = path.read_bytes()
    if path.suffix != ".html":
        return data
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    for day in (written, written - timedelta(days=1)):
        data = data.replace(f"{day.day} {day:%B %Y}".encode(), b"DATE")
    return data


def one_file(name: str, make: Callable[[Path, str], list[str]], out: str) -> Command:
    """A command that writes a single file, and overwrites it with --force."""

    def argv(inputs: Path, place: Path) -> list[str]:
        return [*make(inputs, str(place / out)), "--force"]

    return Command(name, argv, files(out), files(out), sweeps=False)


COMMANDS = (
    Command(
        "train",
        lambda inputs, place: [
            *("train", "--graph", str(inputs / "g.npz"), "--out", str(place / "run")),
            *("--resume", "--runs", "2", *TRAIN),
        ],
        run_results,
        finished_seeds,
    ),
    Command(
        "train links",
        lambda inputs, place: [
            *("train", "--graph", str(inputs / "shop.npz"), *LINK, "--model", "fast_gtn"),
            *("--out", str(place / "run"), "--resume", "--runs", "2", *QUICK, "--set", "model.hidden=8"),
        ],
        run_results,
        finished_seeds,
    ),
    Command(
        "tune",
        lambda inputs, place: ["tune", "--graph", str(inputs / "g.npz"), "--out", str(place / "search"), *TUNE],
        search_results,
        ended_trials,
    ),
    Command(
        "tune links",
        lambda inputs, place: [
            *("tune", "--graph", str(inputs / "shop.npz"), *LINK, "--out", str(place / "search"), *LINK_TUNE),
        ],
        search_results,
        ended_trials,
    ),
    Command(
        "bench",
        lambda inputs, place: [*BENCH, "--graph", str(inputs / "g.npz"), "--out", str(place / "bench")],
        run_results,
        finished_seeds,
    ),
    one_file("data build", lambda i, out: ["data", "build", str(i / "graph.toml"), "--out", out], "b.npz"),
    one_file(
        "screen", lambda i, out: ["screen", "--graph", str(i / "g.npz"), "--longest", "2", "--plot", out], "s.png"
    ),
    one_file("report", lambda i, out: ["report", str(i / "run"), "--out", out, "--nodes", "5"], "r.html"),
    one_file("predict", lambda i, out: ["predict", str(i / "run"), "--out", out], "p.csv"),
)


def sha(data: bytes) -> str:
    """A hash."""
    return hashlib.sha256(data).hexdigest()


def require_whole(path: Path) -> None:
    """Read a file with a final name to its end; raises if it is half-written."""
    match path.suffix:
        case ".json":
            json.loads(path.read_text())
        case ".jsonl":
            for line in path.read_text().splitlines():
                json.loads(line)
        case ".toml":
            tomllib.loads(path.read_text())
        case ".safetensors":
            read_tensors(path)
        case ".parquet":
            pq.ParquetFile(path, pre_buffer=False).read(use_threads=False)  # this process starts no thread
        case ".npz":
            with np.load(path) as arrays:
                assert all(arrays[name] is not None for name in arrays)  # zip files have a checksum per array
        case ".png":
            assert path.read_bytes().endswith(b"IEND\xaeB`\x82"), f"{path.name} has no end"
        case ".html":
            assert path.read_text().rstrip().endswith("</html>"), f"{path.name} has no end"
        case ".csv" | ".md":
            assert path.read_text().endswith("\n"), f"{path.name} has no end"
