"""Doors for folders that fastgtn wrote and somebody changed: runs of node and link models, decisions, searches."""

import sqlite3
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from faults.doors import damaged, damaged_values
from quick_config import quick
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.data import NodeTask, archive, make_planted
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.links.folder import load_links
from fastgtn.links.settings import LinkSettings
from fastgtn.links.train import train_links
from fastgtn.runs import load_run
from fastgtn.runs.learned.decided import stored_decisions
from fastgtn.training.build import Inputs
from fastgtn.training.prepare.settle import settle
from fastgtn.tuning.study import DATABASE, open_study

FACTS = {"metric": "micro_f1", "dataset": "g", "model": "gcn"}
SMALL = {"model": {"hidden": 4, "path_length": 1, "num_channels": 1, "name": "fast_gtn"}, "fit": {"epochs": 1}}


class StoredFolder:
    """A finished folder in which one file is damaged for each attempt: in its bytes, or in the values of its JSON.

    Args:
        make: Writes the folder.
        use: Opens it and uses what it says.
        only: Damage the file of this name alone.
    """

    def __init__(self, make: Callable[[Path], None], use: Callable[[Path], object], *, only: str = "") -> None:
        self.make, self.use, self.only = make, use, only
        self.files: dict[str, bytes] = {}

    def __call__(self, random: Random, folder: Path) -> object:
        place = folder / "run"
        if not self.files:
            with tempfile.TemporaryDirectory() as first:
                self.make(Path(first) / "run")
                self.remember(Path(first) / "run")
        if not place.exists():
            for name, content in self.files.items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(content)
        name = random.choice([name for name in sorted(self.files) if name.endswith(self.only)])
        damage = damaged_values if name.endswith(".json") and random.random() < 0.7 else damaged
        (place / name).write_bytes(damage(self.files[name], random))
        try:
            return self.use(place)
        finally:
            (place / name).write_bytes(self.files[name])

    def remember(self, place: Path) -> None:
        """Take the files of a folder that was made, here or in another process."""
        paths = [path for path in place.rglob("*") if path.is_file() and path.name != ".lock"]
        self.files = {str(path.relative_to(place)): path.read_bytes() for path in paths}


@cache
def planted() -> tuple[HeteroData, NodeTask]:
    """The graph of the runs."""
    return make_planted("APA", authors=30, papers=40, venues=6, terms=6, features=4, seed=1)


@cache
def shop() -> HeteroData:
    """The graph of the link runs."""
    return make_planted_links(users=30, items=20, seed=0)


def make_run(place: Path) -> None:
    """A run of a narrow model."""
    archive.write(place.with_name("g.npz"), *planted())
    fastgtn.runs.train(quick(place.with_name("g.npz"), fit={"epochs": 2}), out=place)


def open_run(place: Path) -> object:
    """Scores, history and predictions of a run."""
    run = load_run(place)
    return run.test, run.history, run.predict(planted()[0])


def make_screened_run(place: Path) -> None:
    """A run whose paths and options were decided before training."""
    archive.write(place.with_name("g.npz"), *planted())
    fastgtn.runs.train(fastgtn.Config.of({"dataset": str(place.with_name("g.npz")), "fit": {"epochs": 2}}), out=place)


def resume_run(place: Path) -> object:
    """What a resumed run takes from its decisions."""
    graph, task = planted()
    config = fastgtn.Config.of({})
    return settle(Inputs.of(graph, config), task, config, stored=stored_decisions(place, config))


def make_link_run(place: Path) -> None:
    """Two link models: joined meta-paths, and encoders."""
    archive.write(place.with_name("shop.npz"), shop(), None)
    for name, model in (("joined", {}), ("learned", {"model": "fast_gtn", "values": SMALL})):
        settings = LinkSettings(str(place.with_name("shop.npz")), "buys", longest=2, **model)  # type: ignore[arg-type]
        train_links(settings, out=place / name)


def open_link_run(place: Path) -> object:
    """Scores and recommendations of both models."""
    found = [load_links(place / name, graph=shop()) for name in ("joined", "learned")]
    return [(links.test, links.recommend([0], top=2)) for links in found]


class SearchFolder:
    """The database of a search, damaged in its bytes, or in its rows."""

    def __init__(self) -> None:
        self.good = b""

    def __call__(self, random: Random, folder: Path) -> object:
        place = folder / "search"
        if not self.good:
            self.make(place)
            self.remember(place)
        place.mkdir(exist_ok=True)
        (place / f"{DATABASE}-journal").unlink(missing_ok=True)
        (place / DATABASE).write_bytes(self.good if random.random() < 0.5 else damaged(self.good, random))
        if (place / DATABASE).read_bytes() == self.good:
            self._change_row(place / DATABASE, random)
        return self.make(place)

    def make(self, place: Path) -> object:
        """Begin a search, or continue it."""
        with open_study(place, FACTS, {}, {}, seed=0) as study:
            study.ask(3)
            return study.best(), study.seconds()

    def remember(self, place: Path) -> None:
        """Take the database of a search that was begun, here or in another process."""
        self.good = (place / DATABASE).read_bytes()

    def _change_row(self, file: Path, random: Random) -> None:
        values = [None, -1, 2**62, 1e300, "", "RUNNING", "COMPLETE", "x" * 1000, "{}", "[", b"\xff", float("inf")]
        with sqlite3.connect(file) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = random.choice(tables)
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            try:
                database.execute(f"UPDATE {table} SET {random.choice(columns)} = ?", (random.choice(values),))
            except sqlite3.Error:  # the database itself refuses it
                database.execute(f"DROP TABLE {table}")
