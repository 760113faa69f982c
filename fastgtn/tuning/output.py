"""The output of a search: the best config, a table of all trials, and a plot of the importance of keys."""

import csv
import io
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import optuna
from matplotlib.figure import Figure
from optuna.trial import TrialState

from fastgtn.config import Config, is_path, toml
from fastgtn.config.config import free_keys
from fastgtn.config.models import title_of
from fastgtn.data import metrics
from fastgtn.runs.files import write_text, write_whole
from fastgtn.tuning.space import drawn
from fastgtn.tuning.study import SharedStudy


def write_files(
    study: SharedStudy, best_file: Callable[[SharedStudy], str], facts: Mapping[str, Any], *, plot: bool = False
) -> None:
    """Write `best.toml`, `trials.csv` and, at the end, `importance.png`."""
    write_text(study.folder / "trials.csv", trial_table(study))
    if study.best() is None:
        return
    write_text(study.folder / "best.toml", best_file(study))
    if plot:
        write_whole(study.folder / "importance.png", lambda path: _draw(study, facts, path))


def summary(study: SharedStudy, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of the search."""
    best, ended = study.best(), study.ended()
    assert best is not None
    found = {
        "trial": best.number,
        "score": best.value,
        "epochs": best.user_attrs["epochs"],
        "settings": toml.flat(drawn(best.params)),
    }
    return {
        "dataset": facts["dataset"],
        "model": facts["model"],
        "metric": facts["metric"],
        "trials": len(ended),
        "scored": sum(t.state == TrialState.COMPLETE for t in ended),
        "seconds": round(study.seconds(), 1),
        "best": found,
        "importance": importance(study),
        "out": str(study.folder),
        "config": str(study.folder / "best.toml"),
    }


def best_config(study: SharedStudy, config: Config, facts: Mapping[str, Any]) -> str:
    """The best trial as a config file with the searched keys and those that differ from the defaults."""
    best = study.best()
    assert best is not None
    chosen = Config.of(config.model_dump(), drawn(best.params))
    default = toml.flat(Config.of({"model": {"name": chosen.model.name}}).model_dump())
    kept = {
        key: value
        for key, value in toml.flat(chosen.model_dump()).items()
        if key in ("dataset", "model.name", *study.space) or (value != default[key] and key not in free_keys())
    }
    if is_path(config.dataset):
        kept["dataset"] = str(Path(config.dataset).resolve())  # not relative to the folder of this file
    command = "<this file>" if is_path(config.dataset) else f"--dataset {config.dataset} --model {facts['model']}"
    return best_header(study, facts, command) + toml.dump(toml.nested(kept))


def best_header(study: SharedStudy, facts: Mapping[str, Any], command: str) -> str:
    """The first lines of `best.toml`: how to train it, and how it was chosen."""
    best = study.best()
    assert best is not None
    seeds = f"mean of {facts['seeds_per_trial']} seeds" if facts["seeds_per_trial"] > 1 else "one seed"
    count, metric = len(study.ended()), metrics.title_of(facts["metric"])
    chosen_by = f"Chosen among {count} trials by {metric}" if count > 1 else f"The only trial; {metric}"
    score = metrics.shown(facts["metric"], float(best.value or 0))
    return (
        f"# {title_of(facts['model'])} on {facts['dataset']}.   fastgtn train {command} --runs 10\n"
        f"# {chosen_by} on the validation split: {score} ({seeds}).\n"
    )


def trial_table(study: SharedStudy) -> str:
    """One line per trial, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "state", "score", "epochs", "seconds", *study.space, "reason"])
    for trial in study.trials():
        facts, values = trial.user_attrs, toml.flat(drawn(trial.params))
        score = "" if trial.value is None else trial.value
        epochs = " ".join(map(str, facts.get("epochs", ())))
        seconds = f"{facts['seconds']:.2f}" if "seconds" in facts else ""
        shown = [values.get(key, "") for key in study.space]
        writer.writerow(
            [trial.number, trial.state.name.lower(), score, epochs, seconds, *shown, facts.get("reason", "")]
        )
    return text.getvalue()


def importance(study: SharedStudy) -> dict[str, float]:
    """The importance of each key for good scores (PED-ANOVA), as shares of one; empty if there are too few trials."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            evaluator = optuna.importance.PedAnovaImportanceEvaluator()
            return optuna.importance.get_param_importances(study.study, evaluator=evaluator)
        except (ValueError, RuntimeError):  # fewer than two different trials
            return {}


def _draw(study: SharedStudy, facts: Mapping[str, Any], path: Path) -> None:
    scored = [trial for trial in study.trials() if trial.state == TrialState.COMPLETE]
    factor = 100 if metrics.is_fraction(facts["metric"]) else 1
    scores = [factor * float(trial.value or 0) for trial in scored]
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    numbers = [trial.number for trial in scored]
    best_of = max if metrics.is_higher_better(facts["metric"]) else min
    best = [best_of(scores[: n + 1]) for n in range(len(scores))]
    left.plot(numbers, scores, "o", color="#7a8aa0", markersize=4)
    left.step(numbers, best, where="post", color="#c2410c", label="best")
    left.set(xlabel="trial", ylabel=f"validation {metrics.title_of(facts['metric'])}", title="score over trials")
    left.legend(frameon=False)
    shares = sorted(importance(study).items(), key=lambda item: item[1])
    right.barh([key for key, _ in shares], [share for _, share in shares], color="#7a8aa0")
    right.set(xlabel="share", title="what mattered")
    figure.suptitle(f"{title_of(facts['model'])} on {facts['dataset']}")
    figure.savefig(path, dpi=120)
