"""Train link models into a run folder: one folder per seed, one summary over all seeds, and exact resume."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fastgtn.config import FitOptions, toml
from fastgtn.config.config import free_keys
from fastgtn.data import checksum
from fastgtn.errors import InputError
from fastgtn.leftovers import PARTIAL, sweep
from fastgtn.links.fit import LinkResult, fit_links
from fastgtn.links.folder import FILE, load_link_task, save
from fastgtn.links.learned.options import JOINED, encoder_config
from fastgtn.links.learned.result import LearnedLinks, fit_encoders
from fastgtn.links.learned.store import WEIGHTS
from fastgtn.links.settings import LinkSettings
from fastgtn.links.task import LinkTask
from fastgtn.runs.checkpoint import is_whole
from fastgtn.runs.files import alone_in, read_json, write_json
from fastgtn.runs.records import Facts, checked
from fastgtn.runs.seed_run import Recorder
from fastgtn.system import own_folder
from fastgtn.training.device import chosen_device
from fastgtn.training.loop import State
from fastgtn.training.team import ALONE, Team, is_restarted, may_restart

RUN, RESULT = "run.json", "result.json"
Watch = Callable[[State], None]


class _Scores(Facts):
    """What the summary of a run relies on."""

    seed: int
    val: dict[str, float]
    test: dict[str, float]


def train_links(
    settings: LinkSettings,
    *,
    out: Path,
    runs: int | None = None,
    resume: bool = False,
    data_dir: str | Path | None = None,
    watch: Callable[[int, State], None] | None = None,
    team: Team = ALONE,
) -> dict[str, Any]:
    """Train one model per seed into a folder; `result.json` has the mean and the deviation of every score.

    Args:
        runs: Number of seeds; by default that of a run that is resumed, else `fit.runs`, else one.
        resume: Resume a run of the same settings. Finished seeds are kept, and unfinished encoders resume exactly.
        watch: A function that is called with the seed and the state after every epoch of an encoder.
        team: The processes that train encoders together. Each of them calls this function; rank 0 writes.
    """
    chosen_device(_fit_options(settings).device, team)  # a missing one is reported before anything is written
    resume = resume or is_restarted()
    usual = settings.runs
    runs = team.tell(lambda: _stored_runs(out) if resume else usual) if runs is None else runs
    if runs < 1:
        raise InputError(f"a run has at least one seed, but got runs = {runs}.")
    graph = checksum(settings.dataset, data_dir=data_dir)
    record = {"settings": settings.to_json(), "data_checksum": graph, "runs": runs}
    facts = []
    with ExitStack() as until_the_end:
        team.tell(lambda: until_the_end.enter_context(_opened(out, record, resume=resume)))
        for seed in range(settings.seed, settings.seed + runs):
            mine, folder = replace(settings, seed=seed), out / f"seed-{seed}"
            found = team.tell(partial(_finished, folder, mine))
            if found is None:
                found = _train_seed(mine, folder, None if watch is None else partial(watch, seed), data_dir, team)
            facts.append(found)
        summary = {"settings": settings.to_json(), "runs": facts, **spread_of(facts), "out": str(out)}
        if team.leads:
            write_json(out / RESULT, summary)
    return summary


def fit_settings(
    task: LinkTask,
    settings: LinkSettings,
    *,
    resume: Watch | None = None,
    watch: Watch | None = None,
    team: Team = ALONE,
) -> LinkResult | LearnedLinks:
    """Train the model of the settings: joined meta-paths, or encoders."""
    numbers = {"longest": settings.longest, "seed": settings.seed}
    if settings.model == JOINED:
        return fit_links(task, **numbers)
    return fit_encoders(task, settings.model, settings.values, **numbers, resume=resume, watch=watch, team=team)


def stored_settings(folder: Path) -> LinkSettings:
    """The settings of a run folder."""
    if not (folder / RUN).exists():
        raise InputError(f"{folder} is not the folder of a link run: it has no {RUN}.")
    try:
        return LinkSettings(**read_json(folder / RUN)["settings"])
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder / RUN} is damaged ({error!r}): choose another --out.") from None


def _stored_runs(folder: Path) -> int:
    """How many seeds a run was started with; one if that is not known."""
    found = read_json(folder / RUN).get("runs") if (folder / RUN).exists() else None
    return found if isinstance(found, int) and found > 0 else 1


def require_place(out: Path | None, *, resume: bool) -> None:
    """Refuse to continue a run whose folder was not given."""
    if out is None and may_restart():
        raise InputError("torchrun --max-restarts resumes a run: give its folder with --out.")
    if out is None and resume:
        raise InputError("--resume needs the folder of the run: give it with --out.")


def spread_of(facts: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Mean and sample standard deviation over the seeds, of every metric."""
    result: dict[str, dict[str, dict[str, float]]] = {}
    for split in ("val", "test"):
        columns = {name: [run[split][name] for run in facts] for name in facts[0][split]}
        result[split] = {
            name: {"mean": statistics.fmean(values), "std": statistics.stdev(values) if len(values) > 1 else 0.0}
            for name, values in columns.items()
        }
    return result


def _train_seed(
    settings: LinkSettings, folder: Path, show: Watch | None, data_dir: str | Path | None, team: Team
) -> dict[str, Any]:
    """Train one seed from its checkpoint, or from the beginning; `result.json` is written last."""
    task = load_link_task(settings, data_dir=data_dir)
    if team.leads:
        own_folder(folder)
    recorder = Recorder(folder, _fit_options(settings), show or (lambda _: None), writes=team.leads)
    try:
        result = fit_settings(task, settings, resume=recorder.resume, watch=recorder.watch, team=team)
    finally:
        recorder.close()
    facts = {"seed": settings.seed, **result.facts()}
    if team.leads:
        save(result, settings, folder)
        write_json(folder / RESULT, facts)
    return facts


def _fit_options(settings: LinkSettings) -> FitOptions:
    if settings.model == JOINED:
        return FitOptions()
    return encoder_config(settings.model, settings.values, seed=settings.seed)[0].fit


def _finished(folder: Path, settings: LinkSettings) -> dict[str, Any] | None:
    """The stored facts of a seed. None if they are missing or damaged: the seed is then trained again."""
    if not all((folder / name).is_file() for name in (FILE, RESULT)):
        return None
    if settings.model != JOINED and not is_whole(folder / WEIGHTS):
        return None
    try:
        read_json(folder / FILE)
        return checked(folder / RESULT, _Scores)
    except InputError:
        return None


@contextmanager
def _opened(out: Path, record: dict[str, Any], *, resume: bool) -> Iterator[Path]:
    """Create the run folder, or open that of an unfinished run of the same settings on the same graph."""
    _require_free_or_same(out, record, resume=resume)
    own_folder(out)
    with alone_in(out):
        _require_free_or_same(out, record, resume=resume)  # another process may have changed the folder
        for folder in (out, *out.glob("seed-*"), *out.glob("seed-*/checkpoint")):
            if folder.is_dir() and not folder.is_symlink():
                sweep(folder)
        write_json(out / RUN, record)
        try:
            yield out
        except InputError:
            if not any(out.glob("seed-*")):  # nothing was trained, so the corrected command may use the folder
                (out / RUN).unlink()
            raise


def _require_free_or_same(out: Path, record: dict[str, Any], *, resume: bool) -> None:
    if not out.exists() or all(file.name == ".lock" or PARTIAL.fullmatch(file.name) for file in out.iterdir()):
        return  # free, or a process ended before it wrote anything else
    if not resume:
        raise InputError(f"{out} already contains files: resume that run with --resume, or choose another --out.")
    before, now = (toml.flat(json.loads(json.dumps(one.to_json()))) for one in (stored_settings(out), _of(record)))
    free = {f"values.{key}" for key in free_keys()}
    changed = [key for key in before.keys() | now.keys() if before.get(key) != now.get(key) and key not in free]
    if changed:
        listed = ", ".join(f"{key} was {before.get(key)!r}, now {now.get(key)!r}" for key in sorted(changed))
        raise InputError(f"{out} is a run of other settings ({listed}): choose another --out.")
    if read_json(out / RUN).get("data_checksum") != record["data_checksum"]:
        raise InputError(f"the graph has changed since the run in {out} was started: choose another --out.")


def _of(record: dict[str, Any]) -> LinkSettings:
    return LinkSettings(**record["settings"])
