"""Train into a run folder: one folder per seed, one summary over all seeds, and exact resume."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from fastgtn.config import Config, toml
from fastgtn.config.config import free_keys
from fastgtn.data import NodeTask, checksum
from fastgtn.data.catalog import load_labelled
from fastgtn.errors import InputError
from fastgtn.leftovers import sweep
from fastgtn.runs.files import alone_in, read_json, write_json, write_text
from fastgtn.runs.learned.decided import DECISIONS, stored_decisions
from fastgtn.runs.records import read_result
from fastgtn.runs.schema import Schema
from fastgtn.runs.seed_run import SeedRun
from fastgtn.runs.summary import in_summary, name_of, summary, versions
from fastgtn.training.build import Inputs
from fastgtn.training.device import chosen_device
from fastgtn.training.fit import check, chosen
from fastgtn.training.free_memory import require_memory
from fastgtn.training.loop import State
from fastgtn.training.memory import MemoryPlan, plan_memory
from fastgtn.training.prepare.decisions import Decisions
from fastgtn.training.prepare.settle import Listeners, settle
from fastgtn.training.team import ALONE, Team, is_restarted, may_restart


class Listener:
    """Receives the events of a run. This base class ignores them."""

    def screened(self, done: int, total: int) -> None: ...

    def tried(self, done: int, total: int) -> None: ...

    def started(self, inputs: Inputs, task: NodeTask, config: Config, folder: Path, plan: MemoryPlan) -> None: ...

    def epoch_done(self, seed: int, state: State) -> None: ...

    def seed_done(self, run: dict[str, Any]) -> None: ...


def train(
    config: Config,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    data_dir: str | Path | None = None,
    listener: Listener | None = None,
    team: Team = ALONE,
) -> dict[str, Any]:
    """Train all seeds of a config into a folder; `result.json` summarises them and earlier seeds of the folder.

    Args:
        out: The run folder; by default the next free ``runs/<dataset>-<model>-<number>``.
        resume: Resume a run of the same config. Finished seeds are kept, and an unfinished one resumes exactly.
        team: The processes that train together. Each of them calls this function; rank 0 writes.
    """
    if out is None and may_restart():
        raise InputError("torchrun --max-restarts resumes a run: give its folder with --out.")
    chosen_device(config.fit.device, team)  # a missing one is reported before the graph is read
    resume, place = resume or is_restarted(), None if out is None else Path(out)
    graph, task = load_labelled(config.dataset, data_dir=data_dir, seed=config.split_seed)
    data_checksum = checksum(config.dataset, data_dir=data_dir, loaded=(graph, task))
    record: dict[str, Any] = {"dataset": name_of(config, graph), "data_checksum": data_checksum, "versions": versions()}
    plan = plan_memory(graph, task, config)
    require_memory(plan, config)
    listener = listener or Listener()
    inputs, settled = _settled(Inputs.of(graph, config), task, config, place if resume else None, listener, team)
    check(inputs, task, settled)
    schema = Schema.of(graph, inputs, task)
    runs: list[dict[str, Any]] = []
    with ExitStack() as until_the_end:
        folder = team.tell(lambda: until_the_end.enter_context(open_folder(config, place, record, resume=resume)))
        listener.started(inputs, task, settled, folder, plan)
        began = cache(lambda: _keep_config(config, folder, record, inputs.decisions) if team.leads else None)
        for seed in seeds_of(config):
            one = SeedRun(folder / f"seed-{seed}", settled.for_seed(seed), schema, graph, team)
            result = team.tell(one.finished)
            if result is None:
                result = _train_seed(one, inputs, task, record, listener, began)
            began()
            runs.append(in_summary(result))
            if team.leads:
                write_json(
                    folder / "result.json",
                    summary(settled, _with_others(runs, folder), folder, plan, dataset=record["dataset"]),
                )
            listener.seed_done(runs[-1])
    return summary(settled, runs, folder, plan, dataset=record["dataset"])


def _settled(
    inputs: Inputs, task: NodeTask, config: Config, folder: Path | None, listener: Listener, team: Team
) -> tuple[Inputs, Config]:
    """Decide what the config leaves open, or read what was decided when the run that is continued began."""

    def found() -> dict[str, Any]:
        stored = None if folder is None else stored_decisions(folder, config)
        if stored is None:
            progress = Listeners(listener.screened, listener.tried)
            stored = settle(inputs, task, config, progress=progress)[0].decisions
        return stored.to_dict()

    return settle(inputs, task, config, stored=Decisions.from_dict(team.tell(found)))


def _train_seed(
    one: SeedRun,
    inputs: Inputs,
    task: NodeTask,
    record: dict[str, Any],
    listener: Listener,
    began: Callable[[], None],
) -> dict[str, Any]:
    seed = one.config.fit.seed

    def after_epoch(state: State) -> None:
        began()
        listener.epoch_done(seed, state)

    state = one.train(inputs, task, after_epoch)
    return one.team.tell(lambda: one.store(chosen(inputs, task, one.config, state), task, record))


def _with_others(runs: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """These runs and the earlier ones of other seeds in the folder, in order."""
    found = {run["seed"]: run for run in runs}
    for path in folder.glob("seed-*/result.json"):
        with suppress(InputError):  # a damaged result is recreated when its seed is trained again
            run = read_result(path.parent)
            found.setdefault(run["seed"], in_summary(run))
    return [found[seed] for seed in sorted(found)]


@contextmanager
def open_folder(config: Config, out: Path | None, record: dict[str, Any], *, resume: bool) -> Iterator[Path]:
    """Create the run folder, or resume an unfinished run. Two runs or two processes never share a folder.

    Nothing is changed before the folder belongs to this process alone and the run is known to be the same.
    """
    if out is None:
        if resume:
            raise InputError("--resume needs the folder of the run: give it with --out.")
        out = next_folder(f"{name_of(config)}-{config.model.label}")
    elif out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: choose another folder with --out.")
    _require_free_or_same(config, out, record, resume=resume)
    out.mkdir(parents=True, exist_ok=True)
    with alone_in(out):
        _require_free_or_same(
            config, out, record, resume=resume
        )  # check again, because another process may have changed the folder
        for folder in (out, *out.glob("seed-*"), *out.glob("seed-*/checkpoint")):
            if folder.is_dir() and not folder.is_symlink():
                sweep(folder)
        if not (out / "config.toml").exists():
            write_json(out / "run.json", record)
            write_text(out / "config.toml", config.to_toml())
        yield out


def _keep_config(config: Config, folder: Path, record: dict[str, Any], decisions: Decisions) -> None:
    """Store the config of a run and what was decided, once it is certain that it can be trained or continued."""
    write_json(folder / "run.json", record)
    write_json(folder / DECISIONS, decisions.to_dict())
    if set(seeds_of(config)) >= set(seeds_of(stored_config(folder))):
        write_text(folder / "config.toml", config.to_toml())


def _require_free_or_same(config: Config, out: Path, record: dict[str, Any], *, resume: bool) -> None:
    if not out.exists() or all(file.name == ".lock" for file in out.iterdir()):
        return
    if not resume:
        raise InputError(f"{out} already contains files: resume that run with --resume, or choose another --out.")
    _require_same(config, out, record)


def seeds_of(config: Config) -> range:
    return range(config.fit.seed, config.fit.seed + config.fit.runs)


def stored_config(folder: Path) -> Config:
    """The config of a run folder."""
    path = folder / "config.toml"
    if not path.exists():
        raise InputError(f"{folder} is not a run folder: it has no config.toml.")
    return Config.stored(toml.read(path))


def _require_same(config: Config, folder: Path, record: dict[str, Any]) -> None:
    """Refuse to resume a run with another config or another graph."""
    if not (folder / "config.toml").exists():
        if all(file.name == "run.json" or file.name[0] == "." for file in folder.iterdir()):
            return  # the process ended before it wrote anything else
        raise InputError(f"{folder} is not a run folder: it has no config.toml. Choose another --out.")
    before, now = (toml.flat(c.model_dump(mode="json")) for c in (stored_config(folder), config))
    changed = [key for key in now if before.get(key) != now[key] and key not in free_keys()]
    if changed:
        listed = ", ".join(f"{key} was {json.dumps(before.get(key))}, now {json.dumps(now[key])}" for key in changed)
        raise InputError(f"{folder} contains a run with a different config ({listed}): choose another --out.")
    if read_json(folder / "run.json").get("data_checksum") != record["data_checksum"]:
        raise InputError(f"the graph has changed since the run in {folder} was started: choose another --out.")


def next_folder(stem: str) -> Path:
    """Make the folder ``runs/<stem>-<number>`` with the first free number; no two processes share it."""
    for number in range(1_000_000):
        folder = Path("runs") / f"{stem}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise InputError("the folder runs/ already contains a million runs: choose another folder with --out.")
