"""`fastgtn report`: one page about one run or several runs."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from fastgtn.cli import complete
from fastgtn.cli.choose import is_link_run
from fastgtn.cli.options import AsJson, DataDir, RunGraph
from fastgtn.cli.output import emit_json, say, stderr
from fastgtn.errors import check_run_folder


def report_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN…",
            help="Run folders, or folders of single seeds.",
            autocompletion=complete.run_folders,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page to write. Default: report.html in the first run.")
    ] = None,
    plots: Annotated[Path | None, typer.Option(help="Also draw the figures as PNG and SVG into this folder.")] = None,
    nodes: Annotated[int, typer.Option(help="Number of nodes that can be looked up.", min=0, max=5000)] = 200,
    graph: RunGraph = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write an HTML page that shows what was learned. It needs no network.

    Example: fastgtn report runs/imdb-fast_gtn-0 runs/imdb-gtn-0 --out imdb.html
    """
    for run in runs:
        check_run_folder(run)
    if any(is_link_run(run) for run in runs):
        from fastgtn.cli.links.use import report_link_run

        report_link_run(
            runs, out, plots=plots, nodes=nodes, graph=graph, data_dir=data_dir, force=force, as_json=as_json
        )
        return
    from fastgtn.report import write_report
    from fastgtn.report.figures.run import check_plots, write_plots
    from fastgtn.report.page import check_free

    place = runs[0] / "report.html" if out is None else out
    check_free(place, force=force)
    if plots is not None:
        check_plots(plots, force=force)
    with stderr.status("reading the runs") if stderr.is_terminal else nullcontext():
        tables = write_report(runs, place, nodes=nodes, graph=graph, data_dir=data_dir, force=force)
        drawn = [] if plots is None else write_plots(tables, plots)
    size = place.stat().st_size
    if as_json:
        first = [{"run": t.folder, "first": t.ranking.paths[0].name if len(t.ranking) else None} for t in tables]
        emit_json({"out": str(place), "bytes": size, "runs": first, "plots": [str(path) for path in drawn]})
        return
    stored = sum(len(table.nodes) for table in tables)
    say("saved", f"{place} · {size / 1e3:,.0f} kB · {stored:,} nodes can be looked up")
    if plots is not None:
        say("plots", f"{plots} · {len(drawn)} files")
