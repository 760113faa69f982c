"""The commands `fastgtn train`, `fastgtn config` and `fastgtn ls`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastgtn.cli import complete
from fastgtn.cli.choose import (
    check_model,
    check_names,
    check_one_graph,
    check_settings,
    choose_config,
    is_link_folder,
    is_link_task,
    link_dataset,
)
from fastgtn.cli.options import (
    AsJson,
    DataDir,
    Dataset,
    LinkNegatives,
    LinkRelation,
    LinkSplit,
    Model,
    Settings,
    TaskKind,
)
from fastgtn.cli.output import emit_json, emit_table, plain, say
from fastgtn.cli.scores import before_shift, points, say_classes
from fastgtn.errors import InputError
from fastgtn.lazy import standing_in

if TYPE_CHECKING:
    from fastgtn.config import Config

# What the files of the models import, which also hold their options: large packages, and parts of this one that
# hold no options
UNUSED_BY_OPTIONS = (
    *("torch", "torch_geometric", "numba", "llvmlite", "numpy", "scipy", "pyarrow", "duckdb", "safetensors"),
    *(f"fastgtn.relations.{part}" for part in ("checks", "hops", "kernels", "matrix", "operator", "paths", "stack")),
    "fastgtn.relations.sampling.batch",
    *(f"fastgtn.nn.{part}" for part in ("classifier", "learned", "path_tables", "row_linear")),
    *("fastgtn.nn.inputs.features", "fastgtn.nn.inputs.checks"),
)


def train_command(
    config: Annotated[Path | None, typer.Argument(metavar="[CONFIG.toml]", help="A config file.")] = None,
    dataset: Dataset = None,
    graph: Annotated[Path | None, typer.Option(help="Use your own graph archive instead of a dataset.")] = None,
    model: Model = None,
    runs: Annotated[int | None, typer.Option(help="Number of seeds.")] = None,
    seed: Annotated[int | None, typer.Option(help="The first seed.")] = None,
    device: Annotated[
        str | None, typer.Option(help="Where to train: auto, cpu, cuda or mps.", autocompletion=complete.devices)
    ] = None,
    aim: Annotated[
        str | None,
        typer.Option(metavar='"precision >= 0.9"', help="What the decision threshold of the rarer class must reach."),
    ] = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The run folder.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    task: TaskKind = None,
    link: LinkRelation = None,
    negatives: LinkNegatives = None,
    split: LinkSplit = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Train a model. Without arguments, train FastGTN on the built-in graph.

    Example: fastgtn train --dataset imdb --model fast_gtn --runs 3 --set fit.epochs=50
    """
    check_one_graph(dataset, graph)
    stored = out if resume and config is None and out is not None and is_link_folder(out) else None
    if stored is not None or is_link_task(task, config, link=link, negatives=negatives, split=split):
        if aim is not None:
            raise InputError("--aim chooses a threshold between classes of nodes, which a link task does not have.")
        from fastgtn.cli.links.train import link_settings, train_link_model

        chosen_link = link_settings(
            link_dataset(dataset, graph, config=config or stored),
            config=config,
            resumed=stored,
            link=link,
            negatives=negatives,
            split=split,
            model=model,
            seed=seed,
            device=device,
            settings=settings,
        )
        train_link_model(chosen_link, runs=runs, out=out, resume=resume, data_dir=data_dir, as_json=as_json)
        return
    check_names(config, dataset, graph, model, data_dir)
    check_settings(settings)
    given = {"runs": runs, "seed": seed, "device": device, "aim": aim}
    extra = {"fit": {name: value for name, value in given.items() if value is not None}}
    place = dataset if graph is None else str(graph.resolve())
    if resume and out is not None:
        chosen = _resumed_config(out, config, place, model, extra, settings or [])
    else:
        chosen = choose_config(config, place, model, extra, settings or [])
    _train_node_model(chosen, out=out, resume=resume, data_dir=data_dir, as_json=as_json)


def _train_node_model(config: Config, *, out: Path | None, resume: bool, data_dir: Path | None, as_json: bool) -> None:
    """Train all seeds of a config, in one process or in a team of them, and print the scores."""
    from fastgtn.cli.progress.training import ProgressBar
    from fastgtn.runs.train import train
    from fastgtn.training.team import joined

    with joined() as team:
        if not team.leads:  # only rank 0 prints
            train(config, out=out, resume=resume, data_dir=data_dir, team=team)
            return
        with ProgressBar(config) as bar:
            summary = train(config, out=out, resume=resume, data_dir=data_dir, listener=bar, team=team)
    if as_json:
        emit_json(summary)
        return
    bar.say_inputs(summary["dataset"])
    _say_scores(summary, bar.config)  # in which trials have decided the number of epochs


def _resumed_config(
    out: Path, file: Path | None, place: str | None, model: str | None, extra: dict[str, Any], settings: list[str]
) -> Config:
    """The config of a run that is resumed: the stored one, unless the options name another."""
    from fastgtn.config import Config, toml
    from fastgtn.runs.train import stored_config

    if not (file or place or model):
        return Config.of(stored_config(out).model_dump(), extra, toml.settings(settings))
    if file is None and place is None and (out / "config.toml").exists():
        place = stored_config(out).dataset
    return choose_config(file, place, model, extra, settings)


def _say_scores(summary: dict[str, Any], chosen: Config) -> None:
    from fastgtn.nn.meta_path.options import MetaPathOptions

    say("fit", _fit_line(summary, chosen))
    say("test", points(summary["test"], summary["runs"]) + _shift_words(summary["runs"], "test"))
    say_classes(summary["runs"])
    next_step = "explain" if isinstance(chosen.model, MetaPathOptions) else "report"
    say("saved", f"{summary['out']}    next: fastgtn {next_step} {summary['out']}")


def config_command(
    model: Annotated[str, typer.Argument(help="Name of a model (fastgtn ls).", autocompletion=complete.models)],
    dataset: Annotated[
        str,
        typer.Argument(help="Name of a dataset, or the path of an archive.", autocompletion=complete.datasets),
    ],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Print the complete config that would be used, so that you can save and edit it.

    Example: fastgtn config fast_gtn imdb > my.toml
    """
    check_model(model)
    check_settings(settings)
    with standing_in(UNUSED_BY_OPTIONS):
        config = choose_config(None, dataset, model, {}, settings or [])
    if as_json:
        emit_json(config.model_dump(mode="json"))
    else:
        typer.echo(plain(config.to_toml()), nl=False)


def list_command(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List models, presets, datasets and tuned configs.

    Example: fastgtn ls
    """
    from rich.table import Table

    from fastgtn.config.presets import PRESETS
    from fastgtn.config.tuned_configs import models, recipes
    from fastgtn.data.catalog import BUILT_IN, PAPER, available, linked

    here = [BUILT_IN, *available(data_dir)]
    tuned = recipes()
    names = [*here, *sorted({name for name, _ in tuned} - set(here))]
    found = {n: {"here": n in here, "tuned": [m for m in models() if (n, m) in tuned]} for n in names}
    if as_json:
        emit_json(
            {"models": list(models()), "presets": list(PRESETS), "datasets": found, "links": list(linked(data_dir))}
        )
        return
    say("models", ", ".join(models()))
    say("presets", ", ".join(PRESETS))
    if names_of_links := linked(data_dir):
        say("links", f"{', '.join(names_of_links)} (fastgtn train --task link --dataset NAME)")
    table = Table(box=None, pad_edge=False)
    for title in ("dataset", "here", "in the paper", "tuned configs"):
        table.add_column(title)
    for name, facts in found.items():
        words = ("yes" if facts["here"] else "no", "yes" if name in PAPER else "", ", ".join(facts["tuned"]))  # type: ignore[arg-type]
        table.add_row(name, *words)
    emit_table(table)


def _fit_line(summary: dict[str, Any], config: Config) -> str:
    runs = summary["runs"]
    epochs = ", ".join(str(run["epoch"]) for run in runs)
    seconds = sum(run["seconds"] for run in runs)
    score = points(summary["val"], runs) + _shift_words(runs, "val")
    return f"epoch {epochs} of {config.fit.most_epochs} · val {score} · {seconds:.1f} s"


def _shift_words(runs: list[Any], split: str) -> str:
    """What follows the scores of a split where class frequencies were corrected."""
    shifted = all(f"{split}_before_label_shift" in run for run in runs)
    return f" after label shift, {before_shift(runs, split)} before" if shifted else ""
