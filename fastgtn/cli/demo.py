"""`fastgtn demo`: FastGTN finds a planted meta-path, so the right answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fastgtn.cli.choose import choose_config
from fastgtn.cli.options import AsJson
from fastgtn.cli.output import emit_json, emit_table, say
from fastgtn.cli.scores import points

if TYPE_CHECKING:
    from fastgtn.explain.ranking import RankedPath


def demo_command(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The run folder.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train on the built-in graph, whose labels follow one known meta-path, and show what was learned.

    Example: fastgtn demo
    """
    from fastgtn.cli.progress.training import ProgressBar
    from fastgtn.runs.load import load_run
    from fastgtn.runs.train import train

    config = choose_config(None, "planted", "fast_gtn", {"fit": {"runs": 1, "seed": seed}}, [])
    with ProgressBar(config) as bar:
        summary = train(config, out=out, listener=bar)
    run = load_run(summary["out"])
    run.control()
    graph, task, ranking = run.graph, run.task, run.metapaths(5)
    planted = [tuple(relation) for relation in graph.planted["relations"]]
    report = run.report(Path(summary["out"]) / "report.html", nodes=40)
    rows = [ranked.to_dict() | {"planted": is_path(ranked, planted)} for ranked in ranking]
    if as_json:
        emit_json(summary | {"planted": graph.planted["path"], "metapaths": rows, "report": str(report)})
        return
    bar.say_inputs(summary["dataset"])
    say("test", f"{points(summary['test'], summary['runs'])}  (chance {100 / task.num_classes:.0f})")
    if ranking.learned is not None:
        say("learned", ranking.learned.verdict)
    emit_table(path_table(rows, task.target))
    say("saved", f"{summary['out']}")
    say("report", f"{report}   (open it in a browser)")
    say("next", f"fastgtn explain {summary['out']}")
    say("", f"fastgtn predict {summary['out']} --out predictions.csv")
    say("", "fastgtn train --model gtn                    the original model on the same graph")
    say("", "fastgtn train --dataset imdb                 a real graph (fastgtn ls)")
    say("", "fastgtn data build graph.toml --out my.npz   your own tables")


def is_path(ranked: RankedPath, relations: list[Any]) -> bool:
    """Whether a ranked path consists of exactly these relations."""
    return [tuple(relation) for relation in ranked.path.relations] == relations


def path_table(rows: list[dict[str, Any]], target: str) -> Table:
    """The table of learned meta-paths, with a mark at the planted one."""
    table = Table(box=None, pad_edge=False)
    for title in ("rank", f"meta-path from {target}", "contribution", "share %", "lift", ""):
        is_number = title in ("rank", "contribution", "share %", "lift")
        table.add_column(title, justify="right" if is_number else "left")
    for row in rows:
        mark = "← planted: the labels follow this path" if row["planted"] else ""
        numbers = [f"{row['contribution']:.3f}", f"{100 * row['share']:.1f}", f"{row['lift']:.1f}"]
        table.add_row(str(row["rank"]), row["path"], *numbers, mark)
    return table
