"""`fastgtn screen`: test which meta-paths are informative about the labels, before any training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fastgtn.cli.choose import check_names, check_one_graph, check_settings, choose_config, is_link_task, link_dataset
from fastgtn.cli.options import AsJson, DataDir, LinkNegatives, LinkRelation, LinkSplit, Settings, TaskKind
from fastgtn.cli.output import emit_json, emit_table, say, stderr
from fastgtn.errors import InputError

if TYPE_CHECKING:
    from fastgtn.config import Config
    from fastgtn.screening import Screening


def screen_command(
    dataset: Annotated[str | None, typer.Option(help="Name of a dataset (fastgtn ls).")] = None,
    graph: Annotated[Path | None, typer.Option(help="Use your own graph archive instead of a dataset.")] = None,
    model: Annotated[
        str, typer.Option(help="fast_gtn (row-normalised steps) or gtn (means over instances).")
    ] = "fast_gtn",
    longest: Annotated[int, typer.Option(help="Length of the longest path to test.", min=1, max=8)] = 4,
    top: Annotated[int, typer.Option(help="Number of paths to list.", min=1)] = 20,
    nodes: Annotated[int, typer.Option(help="Use at most this many training nodes.", min=8)] = 2000,
    seconds: Annotated[float, typer.Option(help="Start no further path after this processor time.", min=0.1)] = 60.0,
    seed: Annotated[int, typer.Option(help="Seed of the sample and of the permutations.", min=0)] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the table into this file (.png, .svg or .pdf).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --plot.")] = False,
    task: TaskKind = None,
    link: LinkRelation = None,
    negatives: LinkNegatives = None,
    split: LinkSplit = None,
    settings: Settings = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Test every meta-path on the training labels; validation and test labels are not read.

    Example: fastgtn screen --dataset dblp --longest 4
    """
    check_one_graph(dataset, graph)
    if is_link_task(task, link=link, negatives=negatives, split=split):
        from fastgtn.cli.links.train import link_settings, screen_link_paths

        if plot is not None:
            raise InputError("--plot draws the screening of labels; that of links is a table, also with --json.")
        name, given = link_dataset(dataset, graph), [f"link.longest={longest}", *(settings or [])]
        chosen = link_settings(name, link=link, negatives=negatives, split=split, seed=seed, settings=given)
        screen_link_paths(chosen, top=top, data_dir=data_dir, as_json=as_json)
        return
    check_names(None, dataset, graph, model, data_dir)
    check_settings(settings)
    from fastgtn.report.figures.screening import check_place, plot_screening

    if plot is not None:
        check_place(plot, force=force)
    place = dataset if graph is None else str(graph.resolve())
    config = choose_config(None, place, model, {"fit": {"seed": seed}}, settings or [])
    found = _screened(config, data_dir, longest=longest, most_nodes=nodes, max_seconds=seconds)
    if plot is not None:
        plot_screening(found, plot, top=top)
    if as_json:
        emit_json({"dataset": config.dataset, "model": model, **found.to_dict()})
        return
    emit_table(screening_table(found, top))
    show_facts(found, top)
    if plot is not None:
        say("plot", str(plot))
    say("next", f"fastgtn train {'--graph' if graph else '--dataset'} {place or config.dataset} --model {model}")


def _screened(config: Config, data_dir: Path | None, **limits: float) -> Screening:
    """Screen the graph of a config, with a progress bar."""
    from fastgtn.data.catalog import load_labelled
    from fastgtn.training import screen_metapaths

    data, labels = load_labelled(config.dataset, data_dir=data_dir, seed=config.split_seed)
    with _Bar() as bar:
        return screen_metapaths(data, labels, config, progress=bar.show, **limits)


def screening_table(found: Screening, top: int) -> Table:
    """One line per path: what it explains alone, its p-value, and what it adds to earlier paths."""
    table = Table(box=None, pad_edge=False)
    table.add_column("rank", justify="right")
    table.add_column("meta-path", no_wrap=True)
    for title in ("R² %", "p", "adds %", "chosen"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, overflow="ellipsis")
    for rank, path in enumerate(found.paths[:top], 1):
        added = f"{100 * path.added:.1f}" if path.chosen else ""
        types = " ← ".join(path.path.types)
        row = (f"{100 * path.r_squared:.1f}", f"{path.p_value:.3f}", added, str(path.chosen or ""))
        table.add_row(str(rank), escape(path.name), *row, escape(types))
    return table


def show_facts(found: Screening, top: int) -> None:
    """The data behind the table, and the paths that were not tested."""
    sample = "" if found.num_nodes == found.num_train else f" of {found.num_train:,}, a stratified sample"
    say(
        "labels",
        f"{found.num_nodes:,} training nodes{sample} · {found.permutations} permutations · {found.seconds:.1f} s",
    )
    if len(found) > top:
        say("paths", f"{top} of {len(found):,} are listed (--top)")
    if found.sketched:
        say("width", f"wide features were mixed down to {found.sketched} columns, so R² is a lower bound")
    if found.first_look:
        say("tested", found.first_look)
    for sentence in found.unseen:
        say("unseen", sentence)
    say("verdict", found.verdict)


class _Bar:
    """A progress bar, shown on a terminal only."""

    def __enter__(self) -> _Bar:
        from rich.progress import Progress

        self.progress = Progress(console=stderr, transient=True, disable=not stderr.is_terminal)
        self.progress.start()
        self.task = self.progress.add_task("paths", total=None)
        return self

    def show(self, done: int, total: int) -> None:
        self.progress.update(self.task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self.progress.stop()
