"""`fastgtn train` and what belongs to it: config, ls."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fastgtn.cli.output import emit_json, emit_table, say, stdout
from fastgtn.cli.progress import ProgressBar
from fastgtn.data import available
from fastgtn.data.catalog import BUILT_IN, PAPER
from fastgtn.errors import InputError
from fastgtn.training import Config, toml
from fastgtn.training.config import is_path, read_values
from fastgtn.training.distributed import joined
from fastgtn.training.model_options import MetaPathOptions
from fastgtn.training.presets import PRESETS
from fastgtn.training.recipes import MODELS, model_values, recipe, recipes
from fastgtn.training.runs import stored_config, train

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the datasets; else FASTGTN_DATA, else the default.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any key of the config: model.path_length=3.")
]


def train_command(
    config: Annotated[Path | None, typer.Argument(metavar="[CONFIG.toml]", help="A config file.")] = None,
    dataset: Annotated[str | None, typer.Option(help="A dataset by name (fastgtn ls).")] = None,
    graph: Annotated[Path | None, typer.Option(help="Your own graph archive instead.")] = None,
    model: Annotated[str | None, typer.Option(help=f"{', '.join(MODELS)}.")] = None,
    runs: Annotated[int | None, typer.Option(help="How many seeds.")] = None,
    seed: Annotated[int | None, typer.Option(help="The first seed.")] = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The run folder.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out, exactly.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Train a model; without arguments FastGTN on the built-in graph.

    Example: fastgtn train --dataset imdb --model fast_gtn --runs 3 --set fit.epochs=50
    """
    if graph is not None and dataset is not None:
        raise InputError("--dataset names a graph of the data folder, --graph a file of yours: give one of them.")
    place = None if graph is None else str(graph.resolve())
    numbers = {name: value for name, value in (("runs", runs), ("seed", seed)) if value is not None}
    if resume and out is not None and not (config or dataset or graph or model):
        chosen = Config.of(stored_config(out).model_dump(), {"fit": numbers}, toml.settings(settings or ()))
    else:
        if resume and out is not None and config is None and (out / "config.toml").exists():
            place = place or dataset or stored_config(out).dataset
        chosen = choose_config(config, place or dataset, model, {"fit": numbers}, settings or [])
    with joined() as team:
        if not team.leads:  # the first process speaks for all
            train(chosen, out=out, resume=resume, data_dir=data_dir, team=team)
            return
        with ProgressBar(chosen) as bar:
            summary = train(chosen, out=out, resume=resume, data_dir=data_dir, listener=bar, team=team)
    if as_json:
        emit_json(summary)
        return
    bar.say_inputs()
    say("fit", _fit_line(summary, chosen))
    say("test", points(summary["test"], summary["runs"]))
    next_step = "explain" if isinstance(chosen.model, MetaPathOptions) else "evaluate"
    say("saved", f"{summary['out']}    next: fastgtn {next_step} {summary['out']}")


def config_command(
    model: Annotated[str, typer.Argument(help=f"{', '.join(MODELS)}.")],
    dataset: Annotated[str, typer.Argument(help="A dataset by name, or the path of an archive.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Print the complete config that would be used, ready to be saved and changed.

    Example: fastgtn config fast_gtn imdb > my.toml
    """
    config = choose_config(None, dataset, model, {}, settings or [])
    if as_json:
        emit_json(config.model_dump(mode="json"))
    else:
        stdout.print(config.to_toml(), markup=False, end="")


def list_command(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List models, presets and datasets, and which pairs have a tuned config.

    Example: fastgtn ls
    """
    here = [BUILT_IN, *available(data_dir)]
    tuned = recipes()
    names = [*here, *sorted({name for name, _ in tuned} - set(here))]
    found = {n: {"here": n in here, "tuned": [m for m in MODELS if (n, m) in tuned]} for n in names}
    if as_json:
        emit_json({"models": list(MODELS), "presets": list(PRESETS), "datasets": found})
        return
    say("models", ", ".join(MODELS))
    say("presets", ", ".join(PRESETS))
    table = Table(box=None, pad_edge=False)
    for title in ("dataset", "here", "in the paper", "tuned configs"):
        table.add_column(title)
    for name, facts in found.items():
        words = ("yes" if facts["here"] else "no", "yes" if name in PAPER else "", ", ".join(facts["tuned"]))  # type: ignore[arg-type]
        table.add_row(name, *words)
    emit_table(table)


def choose_config(
    path: Path | None, dataset: str | None, model: str | None, extra: dict[str, Any], settings: list[str]
) -> Config:
    """The config of a command line: a file or a tuned config, what the options say over it, `--set` last."""
    if dataset is not None and is_path(dataset):
        dataset = str(Path(dataset).resolve())  # a run must find its graph again from anywhere
    words: dict[str, Any] = {} if dataset is None else {"dataset": dataset}
    if path is not None:
        return Config.of(read_values(path), words, model_values(model) if model else {}, extra, toml.settings(settings))
    named = model_values(model or "fast_gtn")
    base = recipe(model or "fast_gtn", dataset or BUILT_IN)
    return Config.of(base, {"dataset": dataset or BUILT_IN}, named, extra, toml.settings(settings))


def points(spread: dict[str, dict[str, float]], runs: list[Any]) -> str:
    """Metrics for people: in points, with the spread over several runs."""
    parts = []
    for name in ("micro_f1", "macro_f1", "ndcg", "mrr"):
        if name in spread:
            deviation = f" ± {100 * spread[name]['std']:.2f}" if len(runs) > 1 else ""
            parts.append(f"{TITLES[name]} {100 * spread[name]['mean']:.2f}{deviation}")
    return " · ".join(parts) or "no test nodes"


TITLES = {
    "accuracy": "accuracy", "micro_f1": "micro-F1", "macro_f1": "macro-F1", "ndcg": "NDCG", "mrr": "MRR",
}  # fmt: skip


def _fit_line(summary: dict[str, Any], config: Config) -> str:
    runs = summary["runs"]
    epochs = ", ".join(str(run["epoch"]) for run in runs)
    seconds = sum(run["seconds"] for run in runs)
    score = points(summary["val"], runs)
    return f"epoch {epochs} of {config.fit.epochs} · val {score} · {seconds:.1f} s"
