"""`fastgtn train --task link`: train a model that predicts edges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastgtn.cli.output import emit_json, emit_table, say, stderr
from fastgtn.errors import InputError, nearest

NEGATIVES = ("uniform", "degree", "two_hop")
SPLITS = ("random", "time")
MOST_SHOWN = 10  # joined paths that training prints

if TYPE_CHECKING:
    from fastgtn.links.joined.screen import LinkScreening
    from fastgtn.links.settings import LinkSettings
    from fastgtn.training.loop import State


def train_link_model(
    settings: LinkSettings, *, runs: int | None, out: Path | None, resume: bool, data_dir: Path | None, as_json: bool
) -> None:
    """Train link models and print their scores and their meta-paths."""
    from fastgtn.links.learned.options import JOINED
    from fastgtn.links.train import require_place, train_links
    from fastgtn.runs.train import next_folder
    from fastgtn.training.team import joined

    require_place(out, resume=resume)
    stem = f"{Path(settings.dataset).stem}-links" + ("" if settings.model == JOINED else f"-{settings.model}")
    with joined() as team:
        place = out or team.tell(lambda: next_folder(stem))
        if not team.leads:  # only rank 0 prints
            train_links(settings, out=place, runs=runs, resume=resume, data_dir=data_dir, team=team)
            return
        with stderr.status("screening joined meta-paths and fitting their weights") as status:

            def show(seed: int, state: State) -> None:
                score = {key.removeprefix("val_"): v for key, v in state.history[-1].items() if key.startswith("val_")}
                score.pop("loss", None)
                status.update(f"seed {seed} · epoch {state.epoch} · val {_points_of(score)}")

            summary = train_links(
                settings, out=place, runs=runs, resume=resume, data_dir=data_dir, watch=show, team=team
            )
    if as_json:
        emit_json(summary)
        return
    first = summary["runs"][0]
    say("task", f"links {first['relation']} · negatives {first['negatives']}")
    if "epoch" in first:
        say("model", f"{first['model']} · decoder {first['decoder']} · epoch {first['epoch']}")
    say("val", _points(summary["val"], len(summary["runs"])))
    say("test", _points(summary["test"], len(summary["runs"])))
    if first["paths"]:
        emit_table(path_table(first["paths"][:MOST_SHOWN], of_encoders="epoch" in first))
    say("learned", first["learned"]["verdict"])
    for note in first.get("notes", ()):
        say("note", note)
    say("saved", f"{summary['out']}    next: fastgtn predict {summary['out']} --top 10 --out links.csv")


def screen_link_paths(settings: LinkSettings, *, top: int, data_dir: Path | None, as_json: bool) -> None:
    """Print which joined meta-paths tell links from other pairs, before anything is trained."""
    from fastgtn.links.folder import load_link_task
    from fastgtn.links.joined.screen import screen_links

    task = load_link_task(settings, data_dir=data_dir)
    screening = screen_links(task, longest=settings.longest, seed=settings.seed)
    if as_json:
        emit_json({"paths": [vars(p) for p in screening.paths], "pairs": screening.num_pairs})
        return
    emit_table(_screening_table(screening, top))
    if len(screening.paths) > top:
        say("paths", f"{top} of {len(screening.paths):,} are listed (--top)")
    for name in screening.left_out[:10]:
        say("skipped", f"{name}: one half of this path is too large to compute, or there are too many paths")


def link_settings(
    dataset: str | None,
    *,
    config: Path | None = None,
    resumed: Path | None = None,
    link: str | None = None,
    negatives: str | None = None,
    split: str | None = None,
    model: str | None = None,
    seed: int | None = None,
    device: str | None = None,
    settings: list[str] | None = None,
) -> LinkSettings:
    """The settings of a command: a file or a run that is resumed, overridden by the options and then by `--set`."""
    for value, known, what in ((negatives, NEGATIVES, "way to draw negatives"), (split, SPLITS, "split")):
        if value is not None and value not in known:
            raise InputError(f'no {what} "{value}"; {nearest(value, known)}')
    from fastgtn.config import toml
    from fastgtn.config.tuned_configs import models
    from fastgtn.links.settings import LinkSettings
    from fastgtn.options import merged

    options = {"relation": link, "negatives": negatives, "split": split}
    values: dict[str, Any] = {"link": {key: value for key, value in options.items() if value is not None}}
    values["fit"] = {key: value for key, value in (("seed", seed), ("device", device)) if value is not None}
    if dataset is not None:
        values["dataset"] = dataset
    if model is not None:
        values["model"] = models().get(model, {"name": model})
    values = merged(values, toml.settings(settings or ()))
    if resumed is not None:
        from fastgtn.links.train import stored_settings

        values = merged(stored_settings(resumed).nested(), values)
    return LinkSettings.of(values) if config is None else LinkSettings.from_toml(config, values)


def _points(scores: dict[str, dict[str, float]], runs: int) -> str:
    from fastgtn.data.metrics import title_of

    words = []
    for name, spread in scores.items():
        deviation = f" ± {100 * spread['std']:.1f}" if runs > 1 else ""
        words.append(f"{title_of(name)} {100 * spread['mean']:.1f}{deviation}")
    return " · ".join(words)


def _points_of(scores: dict[str, float]) -> str:
    return _points({name: {"mean": value} for name, value in scores.items()}, 1)


def path_table(paths: list[dict[str, Any]], *, of_encoders: bool = False) -> Any:
    """The joined meta-paths of a model. Names may have brackets, which are not markup."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    lost = "AUC lost without" if of_encoders else "score lost without"
    for name in ("rank", "joined meta-path", "contribution", lost, "AUC alone", "p-value"):
        table.add_column(name, justify="left" if name == "joined meta-path" else "right")
    for rank, path in enumerate(paths, 1):
        sign = "−" if path["weight"] < 0 else "+"
        table.add_row(
            str(rank),
            escape(path["name"]),
            f"{sign}{path['contribution']:.3f}",
            f"{100 * path['without']:.1f}",
            f"{100 * path['auc']:.1f}",
            "–" if path["p_value"] is None else f"{path['p_value']:.3f}",
        )
    return table


def _screening_table(screening: LinkScreening, top: int) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("joined meta-path", "AUC alone", "p-value", "gain per pair", "chosen"):
        table.add_column(name, justify="left" if name == "joined meta-path" else "right")
    for path in screening.paths[:top]:
        chosen = "" if path.chosen is None else str(path.chosen)
        table.add_row(escape(path.name), f"{100 * path.auc:.1f}", f"{path.p_value:.3f}", f"{path.gain:.4f}", chosen)
    return table
