"""`fastgtn demo`: FastGTN finds a meta-path that is known to be the right one."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fastgtn.cli.output import emit_json, emit_table, say
from fastgtn.cli.progress import ProgressBar
from fastgtn.cli.train import AsJson, choose_config, points
from fastgtn.insight.ranking import RankedPath, rank_metapaths
from fastgtn.insight.report import write_report
from fastgtn.training.load_run import load_run
from fastgtn.training.runs import train


def demo_command(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The run folder.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the training.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train on the built-in graph, in which labels depend on one meta-path, and show what was learned.

    Example: fastgtn demo
    """
    config = choose_config(None, "planted", "fast_gtn", {"fit": {"runs": 1, "seed": seed}}, [])
    with ProgressBar(config) as bar:
        summary = train(config, out=out, listener=bar)
    run = load_run(summary["out"], seed=seed)
    graph, task = run.load_graph()
    inputs, model = run.prepare(graph)
    ranking = rank_metapaths(model, inputs.stack, task.target, top=5)
    planted = [tuple(relation) for relation in graph.planted["relations"]]
    report = Path(summary["out"]) / "report.html"
    write_report([summary["out"]], report, nodes=40)
    rows = [ranked.to_dict() | {"planted": is_path(ranked, planted)} for ranked in ranking]
    if as_json:
        emit_json(summary | {"planted": graph.planted["path"], "metapaths": rows, "report": str(report)})
        return
    bar.say_inputs()
    say("test", f"{points(summary['test'], summary['runs'])}  (chance {100 / task.num_classes:.0f})")
    emit_table(path_table(rows, task.target))
    say("saved", f"{summary['out']}")
    say("report", f"{report}   (open it in a browser)")
    say("next", f"fastgtn explain {summary['out']}")
    say("", f"fastgtn predict {summary['out']} --out predictions.csv")
    say("", "fastgtn train --model gtn                    the original model on the same graph")
    say("", "fastgtn train --dataset imdb                 a real graph (fastgtn ls)")
    say("", "fastgtn data build graph.toml --out my.npz   your own tables")


def is_path(ranked: RankedPath, relations: list[Any]) -> bool:
    """Whether a ranked path takes exactly these relations."""
    return [tuple(relation) for relation in ranked.path.relations] == relations


def path_table(rows: list[dict[str, Any]], target: str) -> Table:
    """The learned meta-paths, the planted one marked."""
    table = Table(box=None, pad_edge=False)
    for title in ("rank", f"meta-path from {target}", "share %", ""):
        table.add_column(title, justify="right" if title in ("rank", "share %") else "left")
    for row in rows:
        mark = "← planted: the labels were made with it" if row["planted"] else ""
        table.add_row(str(row["rank"]), row["path"], f"{100 * row['weight']:.1f}", mark)
    return table
