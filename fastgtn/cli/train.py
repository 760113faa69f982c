"""The commands `fastgtn train`, `fastgtn config` and `fastgtn ls`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastgtn.cli import complete
from fastgtn.cli.output import emit_json, emit_table, say, stdout
from fastgtn.errors import InputError, nearest

if TYPE_CHECKING:
    from fastgtn.config import Config

MOST_CLASSES = 5  # of more, the line of class frequencies shows the commonest two and the rarest
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
DataDir = Annotated[
    Path | None, typer.Option(help="Folder of the datasets. Default: FASTGTN_DATA, or the cache folder.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set any key of the config, such as model.path_length=3.",
        autocompletion=complete.config_settings,
    ),
]
Dataset = Annotated[str | None, typer.Option(help="Name of a dataset (fastgtn ls).", autocompletion=complete.datasets)]
Model = Annotated[str | None, typer.Option(help="Name of a model (fastgtn ls).", autocompletion=complete.models)]

TaskKind = Annotated[
    str | None, typer.Option(help="node: predict labels of nodes; link: predict edges. Default: what the config says.")
]
LinkRelation = Annotated[
    str | None,
    typer.Option(metavar="RELATION", help="With --task link: the relation to predict."),
]
LinkNegatives = Annotated[
    str | None, typer.Option(help="With --task link: uniform, degree or two_hop. Default: uniform.")
]
LinkSplit = Annotated[str | None, typer.Option(help="With --task link: random, or time. Default: random.")]


def is_link_task(task: str | None, config: Path | None = None) -> bool:
    """Whether links are predicted: as told, or because the config has a section `[link]`."""
    if task is None and config is not None:
        from fastgtn.config import toml

        return "link" in toml.read(config)
    if task not in (None, "node", "link"):
        raise InputError(f'no task "{task}"; {nearest(str(task), ("node", "link"))}')
    return task == "link"


def link_dataset(dataset: str | None, graph: Path | None, *, config: Path | None = None) -> str | None:
    """The graph whose links are predicted: a file, or a name of the data folder; None if a config names it."""
    if graph is None and dataset is None:
        if config is not None:
            return None
        raise InputError("a link task needs a graph: give an archive with --graph, or a name with --dataset.")
    is_file = graph is not None and (graph.exists() or graph.suffix == ".npz" or len(graph.parts) > 1)
    return str(graph.resolve()) if graph is not None and is_file else str(dataset or graph)


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
        str | None, typer.Option(metavar='"precision >= 0.9"', help="Choose the threshold of the rarer class for this.")
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
    if graph is not None and dataset is not None:
        raise InputError(
            "--dataset and --graph cannot be combined: give the name of a dataset or the file of your own graph."
        )
    if is_link_task(task, config):
        from fastgtn.cli.links.train import link_settings, train_link_model

        chosen_link = link_settings(
            link_dataset(dataset, graph, config=config),
            config=config,
            link=link,
            negatives=negatives,
            split=split,
            model=model,
            seed=seed,
            device=device,
            settings=settings,
        )
        train_link_model(chosen_link, runs=1 if runs is None else runs, out=out, data_dir=data_dir, as_json=as_json)
        return
    check_names(config, dataset, graph, model, data_dir)
    from fastgtn.cli.progress import ProgressBar
    from fastgtn.config import Config, toml
    from fastgtn.nn.meta_path_model import MetaPathOptions
    from fastgtn.runs.train import stored_config, train
    from fastgtn.training.team import joined

    place = None if graph is None else str(graph.resolve())
    given = {"runs": runs, "seed": seed, "device": device, "aim": aim}
    numbers = {name: value for name, value in given.items() if value is not None}
    if resume and out is not None and not (config or dataset or graph or model):
        chosen = Config.of(stored_config(out).model_dump(), {"fit": numbers}, toml.settings(settings or ()))
    else:
        if resume and out is not None and config is None and (out / "config.toml").exists():
            place = place or dataset or stored_config(out).dataset
        chosen = choose_config(config, place or dataset, model, {"fit": numbers}, settings or [])
    with joined() as team:
        if not team.leads:  # only rank 0 prints
            train(chosen, out=out, resume=resume, data_dir=data_dir, team=team)
            return
        with ProgressBar(chosen) as bar:
            summary = train(chosen, out=out, resume=resume, data_dir=data_dir, listener=bar, team=team)
    if as_json:
        emit_json(summary)
        return
    bar.say_inputs(summary["dataset"])
    say("fit", _fit_line(summary, chosen))
    shifted = " after label shift" if "val_before_label_shift" in summary["runs"][0] else ""
    say("test", points(summary["test"], summary["runs"]) + shifted)
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
    config = choose_config(None, dataset, model, {}, settings or [])
    if as_json:
        emit_json(config.model_dump(mode="json"))
    else:
        stdout.print(config.to_toml(), markup=False, end="")


def list_command(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List models, presets, datasets and tuned configs.

    Example: fastgtn ls
    """
    from rich.table import Table

    from fastgtn.config.presets import PRESETS
    from fastgtn.config.tuned_configs import models, recipes
    from fastgtn.data.catalog import BUILT_IN, PAPER, available

    here = [BUILT_IN, *available(data_dir)]
    tuned = recipes()
    names = [*here, *sorted({name for name, _ in tuned} - set(here))]
    found = {n: {"here": n in here, "tuned": [m for m in models() if (n, m) in tuned]} for n in names}
    if as_json:
        emit_json({"models": list(models()), "presets": list(PRESETS), "datasets": found})
        return
    say("models", ", ".join(models()))
    say("presets", ", ".join(PRESETS))
    table = Table(box=None, pad_edge=False)
    for title in ("dataset", "here", "in the paper", "tuned configs"):
        table.add_column(title)
    for name, facts in found.items():
        words = ("yes" if facts["here"] else "no", "yes" if name in PAPER else "", ", ".join(facts["tuned"]))  # type: ignore[arg-type]
        table.add_row(name, *words)
    emit_table(table)


def check_model(model: str) -> None:
    """Refuse a mistyped model before torch is imported."""
    from fastgtn.config.tuned_configs import model_values

    model_values(model)


def check_names(
    config: Path | None, dataset: str | None, graph: Path | None, model: str | None, data_dir: Path | None
) -> None:
    """Refuse a mistyped model, dataset or file before torch is imported."""
    from fastgtn.config import toml
    from fastgtn.data.catalog import locate

    if model is not None:
        check_model(model)
    if config is not None:
        toml.read(config)
    if dataset is not None:
        locate(dataset, data_dir=data_dir)
    if graph is not None and not graph.exists():
        raise InputError(f"no graph archive at {graph}: give a .npz file or a folder of .npy files.")


def choose_config(
    path: Path | None, dataset: str | None, model: str | None, extra: dict[str, Any], settings: list[str]
) -> Config:
    """The config of a command: a file or a tuned config, overridden by the options and then by `--set`."""
    from fastgtn.config import Config, is_path, read_values, toml
    from fastgtn.config.tuned_configs import model_values, recipe
    from fastgtn.data.catalog import BUILT_IN

    if dataset is not None and is_path(dataset):
        dataset = str(Path(dataset).resolve())  # the run must find its graph from any working directory
    words: dict[str, Any] = {} if dataset is None else {"dataset": dataset}
    if path is not None:
        return Config.of(read_values(path), words, model_values(model) if model else {}, extra, toml.settings(settings))
    named = model_values(model or "fast_gtn")
    base = recipe(model or "fast_gtn", dataset or BUILT_IN)
    return Config.of(base, {"dataset": dataset or BUILT_IN}, named, extra, toml.settings(settings))


def say_classes(runs: list[Any]) -> None:
    """The class balance, what always guessing the commonest class would score, and the threshold for an aim."""
    first = runs[0]
    if "majority" in first:
        say("balance", balance_line(first["balance"], first["majority"], "val"))
    decision = first.get("decision")
    if decision:
        words = "" if decision["is_reached"] else " (the aim is not reached; this is nearest)"
        seed = f" (seed {first['seed']})" if len(runs) > 1 else ""
        scores = [
            f"precision {100 * scores['precision']:.1f} and recall {100 * scores['recall']:.1f} on {split}"
            for split, scores in (("val", decision), ("test", first["test"]))
            if "precision" in scores
        ]
        say(
            "decide",
            f"{decision['class_name']} from a probability of {decision['threshold']:.4f} on, for {decision['aim']}"
            f"{words}: {', '.join(scores)}{seed}",
        )


def balance_line(balance: dict[str, float], majority: float, split: str) -> str:
    """The commonest and the rarest classes of the training nodes, and the score of guessing without a model."""
    order = sorted(balance, key=lambda name: -balance[name])
    listed = order if len(order) <= MOST_CLASSES else [*order[:2], "…", order[-1]]
    shares = [f"{name} {100 * balance[name]:.1f} %" if name in balance else name for name in listed]
    guess = f'always guessing "{order[0]}" scores micro-F1 {100 * majority:.2f} on {split} (majority)'
    return f"{' · '.join(shares)} of the training nodes · {guess}"


def before_shift(runs: list[Any]) -> str:
    """The validation score by which epochs were chosen, before class frequencies were corrected."""
    from fastgtn.data.metrics import main_metric, shown, title_of

    first = runs[0]["val_before_label_shift"]
    main = main_metric(first)
    name = runs[0]["selected_by"] if runs[0]["selected_by"] in first or main is None else main.name
    mean = sum(run["val_before_label_shift"][name] for run in runs) / len(runs)
    return f"{title_of(name)} {shown(name, mean)}"


def points(spread: dict[str, dict[str, float]], runs: list[Any]) -> str:
    """Metrics for people: in points or in the user's unit, with the spread over several runs.

    The metric that chose the epochs comes first.
    """
    from fastgtn.data.metrics import headline, shown, title_of

    parts = []
    first = runs[0].get("selected_by") if runs else None
    for name in headline(spread, first=first):
        deviation = f" ± {shown(name, spread[name]['std'])}" if len(runs) > 1 else ""
        parts.append(f"{title_of(name)} {shown(name, spread[name]['mean'])}{deviation}")
    return " · ".join(parts) or "no test nodes"


def _fit_line(summary: dict[str, Any], config: Config) -> str:
    runs = summary["runs"]
    epochs = ", ".join(str(run["epoch"]) for run in runs)
    seconds = sum(run["seconds"] for run in runs)
    score = points(summary["val"], runs)
    if "val_before_label_shift" in runs[0]:
        score = f"{score} after label shift, {before_shift(runs)} before"
    return f"epoch {epochs} of {config.fit.epochs} · val {score} · {seconds:.1f} s"
