"""One cell of a table: a model on a dataset, trained into a run folder, or read from it."""

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any

import torch

from fastgtn.config import Config, is_path
from fastgtn.config.config import free_keys
from fastgtn.config.tuned_configs import model_values, recipe
from fastgtn.errors import InputError
from fastgtn.runs.summary import mean_and_std
from fastgtn.runs.train import train

NOT_STORED = (
    "the version that trained it did not store its scores without label shift: delete its folder in --out and repeat "
    "the command"
)


@dataclass(frozen=True)
class Plan:
    """One run to do: a config, and its name in the table."""

    dataset: str
    model: str
    config: Config

    @property
    def folder_name(self) -> str:
        """A changed config is another cell: its results must not be mixed with those of an earlier one.

        Keys at their defaults do not count, so that a version with more keys finds the cells of one with fewer.
        """
        free: dict[str, set[str]] = {}
        for section, name in (key.split(".") for key in free_keys()):
            free.setdefault(section, set()).add(name)
        text = self.config.model_dump_json(exclude=free, exclude_defaults=True)
        return f"{dataset_name(self.dataset)}-{self.model}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


@dataclass(frozen=True)
class Cell:
    """The result of a plan, or the reason why it is missing."""

    dataset: str
    model: str
    summary: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    def test(self, metric: str) -> dict[str, float] | None:
        """Mean and standard deviation over the seeds."""
        return self.summary["test"].get(metric) if self.summary else None

    def scores(self, metric: str) -> list[float]:
        """One score per seed, in the order of the seeds."""
        return [run["test"][metric] for run in self.summary["runs"]]

    @property
    def is_shifted(self) -> bool:
        """Whether the class frequencies of the test nodes were corrected."""
        return bool(self.summary) and any("val_before_label_shift" in run for run in self.summary["runs"])

    def before_shift(self) -> "Cell":
        """The same trainings without the correction."""
        if not self.is_shifted:
            return self
        splits = ("val", "test")
        if not all(f"{split}_before_label_shift" in run for run in self.summary["runs"] for split in splits):
            return replace(self, summary={}, reason=NOT_STORED)
        runs = [run | {split: run[f"{split}_before_label_shift"] for split in splits} for run in self.summary["runs"]]
        spreads = {split: mean_and_std([run[split] for run in runs]) for split in splits}
        return replace(self, summary=self.summary | spreads | {"runs": runs})

    def to_json(self) -> dict[str, Any]:
        return {"dataset": self.dataset, "model": self.model, "reason": self.reason or None, **self.summary}


def plan(
    dataset: str,
    model: str,
    *,
    runs: int,
    seed: int,
    extra: Mapping[str, Any] | None = None,
    as_model: str = "",
    recipe_of: str = "",
    tuned: bool = True,
) -> Plan:
    """A model with its tuned config, or with the defaults if there is none.

    Args:
        extra: Nested values over the config.
        as_model: Another name in the table.
        recipe_of: The dataset whose tuned config is taken, if it is not the one of that name.
        tuned: Use tuned configs; otherwise the defaults that a new graph would get.
    """
    base = recipe(model, recipe_of or dataset) if tuned else {}
    if tuned and not base and model == "fast_gtn_non_local":
        base = recipe("fast_gtn", dataset)  # the same model but for the one relation
    place = str(Path(dataset).resolve()) if is_path(dataset) else dataset
    fit = {"fit": {"runs": runs, "seed": seed}}
    config = Config.of(base, {"dataset": place}, model_values(model), extra or {}, fit)
    return Plan(dataset, as_model or model, config)


def run_cells(
    plans: Sequence[Plan],
    out: Path,
    *,
    data_dir: Path | None = None,
    jobs: int = 1,
    done: Callable[[Cell], None] | None = None,
) -> list[Cell]:
    """Run all plans, `jobs` at a time. Finished results in `out` are read, and unfinished ones are resumed.

    Each plan runs in one thread, so that the number of jobs changes no figure.
    """
    if jobs < 1:
        raise InputError(f"--jobs is {jobs}; it must be at least 1.")
    run = partial(run_cell, out=out, data_dir=data_dir)
    if jobs == 1:
        with _one_thread():
            return _gathered(map(run, plans), done)
    with ProcessPoolExecutor(jobs, get_context("spawn"), _begin_worker) as pool:
        try:
            return _gathered(pool.map(run, plans), done)
        except BrokenProcessPool:
            raise InputError(
                "one of the parallel processes was ended from outside, perhaps because memory ran out: run the same "
                "command again, with fewer --jobs if need be. Finished results are kept, and unfinished ones resume."
            ) from None


def run_cell(one: Plan, out: Path, data_dir: Path | None = None) -> Cell:
    """Train the missing seeds of a cell. A cell that cannot be run stores the reason."""
    folder = out / one.folder_name
    try:
        summary = train(one.config, out=folder, resume=folder.exists(), data_dir=data_dir)
    except InputError as error:
        return Cell(one.dataset, one.model, reason=str(error))
    return Cell(one.dataset, one.model, summary)


def dataset_name(dataset: str) -> str:
    """The name of a dataset in a table."""
    return Path(dataset).stem if is_path(dataset) else dataset


def reasons(cells: Sequence[Cell]) -> list[str]:
    """One remark for each thing that could not be run."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        if cell.reason:
            found.setdefault(cell.reason, []).append(f"{cell.model} on {dataset_name(cell.dataset)}")
    return [f"not run: {', '.join(names)}: {reason}" for reason, names in found.items()]


def _gathered(cells: Iterable[Cell], done: Callable[[Cell], None] | None) -> list[Cell]:
    found = []
    for cell in cells:
        found.append(cell)
        if done is not None:
            done(cell)
    return found


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: dense products add in another order on several threads, so their last bits would differ."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _begin_worker() -> None:
    """Give a worker one thread, and let it end with the process that started it, even if that one is killed."""
    torch.set_num_threads(1)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
