"""The command line. Results go to stdout, progress to stderr; a user's mistake gives one line and exit code 2."""

import atexit
import gc
import importlib.metadata
import io
import sys
import threading
from typing import Annotated, Any

import typer

from fastgtn.cli import bench, data, demo, doctor, explain, report, screen, train, tune
from fastgtn.cli.output import complain, print_log
from fastgtn.cli.scoring import evaluate, predict, serve
from fastgtn.errors import InputError
from fastgtn.lazy import defer

# Parts of torch and PyG that are imported with them, though no command uses them: the compiler, whom torch's optimisers
# only ask to keep out, and PyG's layers, datasets and loaders. They take longer than the rest of torch.
UNUSED: dict[str, dict[str, Any]] = {
    "torch._dynamo": {"disable": lambda function, *_, **__: function, "graph_break": lambda *_, **__: None},
    **{f"torch_geometric.{part}": {} for part in ("datasets", "explain", "loader", "nn", "profile", "transforms")},
}
IMPORTING = 3.0  # seconds in which nearly all new objects are modules, classes and functions, which stay

app = typer.Typer(
    help="Learn which meta-paths matter on heterogeneous graphs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("demo")(demo.demo_command)
app.command("screen")(screen.screen_command)
app.command("train")(train.train_command)
app.command("tune")(tune.tune_command)
app.command("evaluate")(evaluate.evaluate_command)
app.command("predict")(predict.predict_command)
app.command("serve")(serve.serve_command)
app.command("explain")(explain.explain_command)
app.command("report")(report.report_command)
app.command("config")(train.config_command)
app.command("ls")(train.list_command)
app.command("doctor")(doctor.doctor_command)
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")


def print_version(wanted: bool) -> None:
    """Print the version and exit, without requiring a command."""
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


def start_fast() -> None:
    """Import only what a command uses, and search for no garbage while it starts and when it ends.

    A program that imports the package does not call this: what it imports, and when, is its own decision.
    """
    defer(UNUSED)
    gc.disable()
    again = threading.Timer(IMPORTING, gc.enable)
    again.daemon = True
    again.start()
    atexit.register(end_fast)


def end_fast() -> None:
    """The end of a process searches all objects for cycles, several times, before it gives back all memory anyway."""
    if "duckdb" not in sys.modules:  # which takes objects that are not found for leaks, and complains
        gc.freeze()


def main() -> None:
    """Entry point of the `fastgtn` command."""
    start_fast()
    print_log()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot print α still shows the result
    try:
        app()
    except InputError as error:
        complain(str(error))
        sys.exit(2)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        complain(
            f"{place}{error.strerror or error}. This file or folder cannot be read or written: choose another one."
        )
        sys.exit(2)
    except MemoryError as error:
        complain(f"there is not enough memory ({error}): use mini-batches (--set batch.size=1024) or a larger machine.")
        sys.exit(2)
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        complain(f"there is not enough memory ({error}): use smaller layers, a smaller graph, or a larger machine.")
        sys.exit(2)
    except OverflowError as error:
        complain(f"a number is too large ({error}): check the options and the config.")
        sys.exit(2)
