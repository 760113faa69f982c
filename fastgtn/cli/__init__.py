"""The command line: results on stdout, progress on stderr, exit code 2 and one line for a user's mistake."""

import importlib.metadata
import io
import sys
from typing import Annotated

import typer

from fastgtn.cli import bench, data, demo, explain, report, train, tune, use_run
from fastgtn.cli.output import complain
from fastgtn.errors import InputError

app = typer.Typer(
    help="Learn which meta-paths matter on heterogeneous graphs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("demo")(demo.demo_command)
app.command("train")(train.train_command)
app.command("tune")(tune.tune_command)
app.command("evaluate")(use_run.evaluate_command)
app.command("predict")(use_run.predict_command)
app.command("explain")(explain.explain_command)
app.command("report")(report.report_command)
app.command("config")(train.config_command)
app.command("ls")(train.list_command)
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")


def print_version(wanted: bool) -> None:
    """Answer `fastgtn --version` before a command is asked for."""
    if wanted:
        typer.echo(importlib.metadata.version("fastgtn"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Learn which meta-paths matter on heterogeneous graphs.

    Example: fastgtn demo
    """


def main() -> None:
    """Entry point of the `fastgtn` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that has no α still gets its answer
    try:
        app()
    except InputError as error:
        complain(str(error))
        sys.exit(2)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        complain(f"{place}{error.strerror or error}. Nothing can be read or written there: choose another place.")
        sys.exit(2)
    except MemoryError as error:
        complain(f"there is not enough memory ({error}): take a smaller graph, or a larger machine.")
        sys.exit(2)
