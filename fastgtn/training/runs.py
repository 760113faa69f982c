"""Training into a run folder: one folder per seed, one result over all of them, and exact continuation."""

import importlib.metadata
import json
import platform
import statistics
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from fastgtn.data import NodeTask, checksum, load
from fastgtn.errors import InputError
from fastgtn.training import toml
from fastgtn.training.build import Inputs
from fastgtn.training.config import Config, is_path
from fastgtn.training.distributed import ALONE, Team, is_restarted, may_restart
from fastgtn.training.files import alone_in, read_json, write_json, write_text
from fastgtn.training.fit import Result, check, chosen
from fastgtn.training.free_memory import require_memory
from fastgtn.training.loop import State
from fastgtn.training.memory import MemoryPlan, plan_memory
from fastgtn.training.results import read_result
from fastgtn.training.schema import Schema
from fastgtn.training.seed_run import SeedRun

RUN_KEYS = ("seed", "epoch", "val", "test", "seconds", "peak_memory_mb", "speed", "propagation")
FREE_KEYS = {  # they change no weights of a seed
    "fit.runs", "fit.seed", "fit.checkpoint_every", "fit.tensorboard", "fit.max_memory_gb",
    "batch.prefetch",
}  # fmt: skip
PACKAGES = ("fastgtn", "torch", "torch_geometric", "numba", "numpy")


class Listener:
    """Is told what happens in a run; this one keeps silent."""

    def started(self, inputs: Inputs, task: NodeTask, folder: Path, plan: MemoryPlan) -> None: ...

    def epoch_done(self, seed: int, state: State) -> None: ...

    def seed_done(self, run: dict[str, Any]) -> None: ...


def train(
    config: Config, *, out: str | Path | None = None, resume: bool = False, data_dir: str | Path | None = None,
    listener: Listener | None = None, team: Team = ALONE,
) -> dict[str, Any]:  # fmt: skip
    """Train all seeds of a config into a folder; `result.json` has their summary, with earlier seeds of the folder.

    Args:
        out: The run folder; by default the next free ``runs/<dataset>-<model>-<number>``.
        resume: Continue a run of the same config: finished seeds are kept, an unfinished one goes on exactly.
        team: The processes that train together; each of them calls this, one of them writes.
    """
    if out is None and may_restart():
        raise InputError("torchrun --max-restarts continues a run: name its folder with --out.")
    resume = resume or is_restarted()
    graph, task = load(config.dataset, data_dir=data_dir, seed=config.split_seed)
    if task is None:
        raise InputError(f"{config.dataset} has no labels and splits, so there is nothing to learn: add a task.")
    data_checksum = checksum(config.dataset, data_dir=data_dir)
    record = {"dataset": name_of(config), "data_checksum": data_checksum, "versions": versions()}
    plan = plan_memory(graph, task, config)
    require_memory(plan, config)
    inputs = Inputs.of(graph, config)
    check(inputs, task, config)
    folder = team.tell(lambda: open_folder(config, None if out is None else Path(out), record, resume=resume))
    schema = Schema.of(graph, inputs, task)
    listener = listener or Listener()
    listener.started(inputs, task, folder, plan)
    runs: list[dict[str, Any]] = []
    with alone_in(folder) if team.leads else nullcontext():
        for seed in seeds_of(config):
            one = SeedRun(folder / f"seed-{seed}", config.for_seed(seed), schema, graph, team)
            result = team.tell(one.finished)
            if result is None:
                result = _train_seed(one, inputs, task, record, listener)
            runs.append({key: result[key] for key in RUN_KEYS if key in result})
            if team.leads:
                write_json(folder / "result.json", summary(config, _with_others(runs, folder), folder, plan))
            listener.seed_done(runs[-1])
    return summary(config, runs, folder, plan)


def _train_seed(
    one: SeedRun, inputs: Inputs, task: NodeTask, record: dict[str, Any], listener: Listener
) -> dict[str, Any]:
    seed = one.config.fit.seed
    state = one.train(inputs, task, lambda state: listener.epoch_done(seed, state))

    def finish() -> dict[str, Any]:
        result = chosen(inputs, task, one.config, state)
        facts = {
            "seed": seed, "epoch": result.epoch, "val": result.val, "test": result.test,
            "seconds": round(result.seconds, 3), "peak_memory_mb": round(result.peak_memory_mb, 1),
            "speed": result.speed, **_told(result), "model": one.config.model.label, **record,
        }  # fmt: skip
        one.store(result, task, facts)
        return facts

    return one.team.tell(finish)


def _with_others(runs: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """These runs and those of other seeds that the folder has from before, in order."""
    found = {run["seed"]: run for run in runs}
    for path in folder.glob("seed-*/result.json"):
        with suppress(InputError):  # it is made anew when its seed is asked for
            run = read_result(path.parent)
            found.setdefault(run["seed"], {key: run[key] for key in RUN_KEYS if key in run})
    return [found[seed] for seed in sorted(found)]


def _told(result: Result) -> dict[str, Any]:
    return {} if result.propagation is None else {"propagation": result.propagation.to_json()}


def summary(config: Config, runs: list[dict[str, Any]], folder: Path, plan: MemoryPlan) -> dict[str, Any]:
    """All runs and, for each metric, their mean and sample standard deviation (n − 1; 0 for one run)."""
    return {
        "dataset": name_of(config),
        "model": config.model.label,
        "runs": runs,
        "val": _spread([run["val"] for run in runs]),
        "test": _spread([run["test"] for run in runs]),
        "memory_plan": plan.to_json(),
        "out": str(folder),
    }


def open_folder(config: Config, out: Path | None, record: dict[str, Any], *, resume: bool) -> Path:
    """Make the run folder, or take up the one of an unfinished run; never mix two runs."""
    if out is None:
        if resume:
            raise InputError("--resume continues a run: name its folder with --out.")
        out = _next_folder(config)
    elif out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: choose another folder with --out.")
    elif out.exists() and any(out.iterdir()):
        if not resume:
            raise InputError(f"{out} has files already: continue that run with --resume, or choose another --out.")
        _require_same(config, out, record)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "run.json", record)
    if not (out / "config.toml").exists() or set(seeds_of(config)) >= set(seeds_of(stored_config(out))):
        write_text(out / "config.toml", config.to_toml())
    return out


def seeds_of(config: Config) -> range:
    return range(config.fit.seed, config.fit.seed + config.fit.runs)


def name_of(config: Config) -> str:
    """The name of the dataset, also of one that was given by its place."""
    return Path(config.dataset).stem if is_path(config.dataset) else config.dataset


def versions() -> dict[str, str]:
    """The packages that decide the numbers."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in PACKAGES}


def stored_config(folder: Path) -> Config:
    """The config of a run folder."""
    path = folder / "config.toml"
    if not path.exists():
        raise InputError(f"{folder} is no run folder: it has no config.toml.")
    return Config.of(toml.read(path))


def _require_same(config: Config, folder: Path, record: dict[str, Any]) -> None:
    """Refuse to continue a run of another config or of another graph."""
    if not (folder / "config.toml").exists():
        if all(file.name == "run.json" or file.name[0] == "." for file in folder.iterdir()):
            return  # the process ended before it wrote anything else
        raise InputError(f"{folder} is no run folder: it has no config.toml. Choose another --out.")
    before, now = (toml.flat(c.model_dump(mode="json")) for c in (stored_config(folder), config))
    changed = [key for key in now if before.get(key) != now[key] and key not in FREE_KEYS]
    if changed:
        listed = ", ".join(f"{key} was {json.dumps(before.get(key))}, now {json.dumps(now[key])}" for key in changed)
        raise InputError(f"{folder} is a run of another config ({listed}): choose another --out.")
    if read_json(folder / "run.json").get("data_checksum") != record["data_checksum"]:
        raise InputError(f"the graph has changed since {folder} was begun: choose another --out.")


def _next_folder(config: Config) -> Path:
    """The first free number; made at once, so that two processes never share one."""
    for number in range(1_000_000):
        folder = Path("runs") / f"{name_of(config)}-{config.model.label}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise InputError("the folder runs/ has a million runs already: name another with --out.")


def _spread(scores: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    result = {}
    for name in scores[0]:
        values = [score[name] for score in scores]
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        result[name] = {"mean": statistics.fmean(values), "std": deviation}
    return result
