"""`fastgtn bench links`: link predictors side by side."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastgtn.cli.bench.options import Force, Markdown, Out, Runs, Seed, names_of
from fastgtn.cli.bench.output import check_file, command_line, emit, tell_predictor
from fastgtn.cli.options import AsJson, DataDir, LinkNegatives, LinkRelation, LinkSplit
from fastgtn.errors import InputError

if TYPE_CHECKING:
    from fastgtn.links import LinkTask


def links_command(
    graph: Annotated[
        str | None,
        typer.Option(help="A graph archive, or a name of the data folder. Default: those of the docs."),
    ] = None,
    link: LinkRelation = None,
    negatives: LinkNegatives = None,
    split: LinkSplit = None,
    models: Annotated[
        str, typer.Option(help="Comma-separated predictors to compare with: rivals, and encoders of fastgtn ls.")
    ] = "popularity,common_neighbors,adamic_adar,bpr,light_gcn,trans_e,dist_mult,complex,rotat_e,fast_gtn,gtn,rgcn",
    only: Annotated[
        str | None, typer.Option(help="Comma-separated titles of the graphs of the docs, such as LastFM,PubMed.")
    ] = None,
    runs: Runs = 3,
    seed: Seed = 0,
    out: Out = Path("runs/bench-links"),
    markdown: Markdown = None,
    force: Force = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Compare joined meta-paths, learned encoders and other link predictors.

    Every finished seed is stored in --out, so the same command continues a run that was interrupted.

    Example: fastgtn bench links --graph shop.npz --link buys
    """
    check_file(markdown, force=force)
    given = [name for name, value in {"--link": link, "--negatives": negatives, "--split": split}.items() if value]
    if given and not graph:
        raise InputError(
            f"{', '.join(given)} can only be used with --graph; --only chooses among the graphs of the docs."
        )
    from fastgtn.bench import link_tasks
    from fastgtn.bench.links import check_rivals, link_cells, links_report
    from fastgtn.cli.links.train import link_settings
    from fastgtn.data import checksum
    from fastgtn.links.folder import load_link_task

    def make(number: int) -> LinkTask:
        settings = link_settings(graph, link=link, negatives=negatives, split=split, seed=number)
        return load_link_task(settings, data_dir=data_dir)

    names, seeds = names_of(models, "--models"), range(seed, seed + runs)
    check_rivals(names)
    tasks: dict[str, Callable[[int], LinkTask]] = {Path(str(graph)).stem: make}
    skipped: list[str] = []
    if graph:
        given = [str(value) for value in (checksum(graph, data_dir=data_dir), link, negatives, split)]
        out = out / hashlib.sha256("\n".join(given).encode()).hexdigest()[:6]
    else:
        tasks, skipped = link_tasks.available(data_dir, only=None if only is None else names_of(only, "--only"))
    cells = {}
    for title, one in tasks.items():
        cells[title] = link_cells(one, names, seeds, out=out / title, done=partial(tell_predictor, title))
    emit(links_report(cells, skipped, command=command_line(), seeds=seeds), markdown, as_json=as_json)
