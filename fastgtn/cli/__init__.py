"""The command line. Results go to stdout, progress to stderr; a user's mistake gives one line and exit code 2."""

import atexit
import gc
import io
import logging
import os
import sys
import threading
from typing import Annotated, Any, NoReturn

import typer

from fastgtn.cli.interrupts import interruptible
from fastgtn.cli.on_demand import group_of
from fastgtn.errors import InputError
from fastgtn.lazy import defer

# Parts of other packages that are imported with them, though no command uses them: the compiler, whom torch's
# optimisers only ask to keep out; PyG's layers, datasets and loaders, and psutil, with which its loaders count the
# processors; numpy's support for Fortran, which scipy imports together with all other parts of numpy; pydantic's search
# for plugins in the metadata of all installed packages; and what rich needs for Markdown and coloured tracebacks, whose
# classes typer names in annotations. They take longer than the rest.
UNUSED: dict[str, dict[str, Any]] = {
    "torch._dynamo": {"disable": lambda function, *_, **__: function, "graph_break": lambda *_, **__: None},
    **{f"torch_geometric.{part}": {} for part in ("datasets", "explain", "loader", "nn", "profile", "transforms")},
    **{name: {} for name in ("psutil", "numpy.f2py")},
    "pydantic.plugin._loader": {"get_plugins": lambda: (), "__path__": ()},
    "rich.markdown": {"Markdown": object, "__path__": ()},  # "from … import" asks every module for its path
    "rich.traceback": {"Traceback": object, "__path__": ()},
}
# How long threads without work spin before they sleep, in the units of OpenMP and OpenBLAS. Their own defaults are so
# long that two threads which share a processor with other programs mostly wait for each other. OpenMP's 5,000 turns
# take a tenth of a millisecond, longer than most gaps between two parallel steps of an epoch.
WAITING = {"GOMP_SPINCOUNT": "5000", "OPENBLAS_THREAD_TIMEOUT": "4"}
IMPORTING = 3.0  # seconds in which nearly all new objects are modules, classes and functions, which stay
COMMANDS = {
    "demo": "fastgtn.cli.demo:demo_command",
    "screen": "fastgtn.cli.screen:screen_command",
    "train": "fastgtn.cli.train:train_command",
    "tune": "fastgtn.cli.tune:tune_command",
    "evaluate": "fastgtn.cli.scoring.evaluate:evaluate_command",
    "predict": "fastgtn.cli.scoring.predict:predict_command",
    "serve": "fastgtn.cli.scoring.serve:serve_command",
    "explain": "fastgtn.cli.explain:explain_command",
    "report": "fastgtn.cli.report:report_command",
    "config": "fastgtn.cli.train:config_command",
    "ls": "fastgtn.cli.train:list_command",
    "doctor": "fastgtn.cli.doctor:doctor_command",
    "data": "fastgtn.cli.data:app",
    "bench": "fastgtn.cli.bench:app",
}

app = typer.Typer(
    cls=group_of(COMMANDS),
    help="Learn which meta-paths matter on heterogeneous graphs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def print_version(wanted: bool) -> None:
    """Print the version and exit, without requiring a command."""
    if wanted:
        import importlib.metadata

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
    """Defer imports that a command does not need, and pause garbage collection while it starts and when it ends.

    Threads that wait go to sleep sooner; the libraries read this when they are imported. Only the command line calls
    this. A program that imports the package is not affected.
    """
    for name, value in WAITING.items():
        if name != "GOMP_SPINCOUNT" or "OMP_WAIT_POLICY" not in os.environ:
            os.environ.setdefault(name, value)
    defer(UNUSED)
    gc.disable()
    again = threading.Timer(IMPORTING, gc.enable)
    again.daemon = True
    again.start()
    atexit.register(end_fast)


def end_fast() -> None:
    """Skip the garbage collections that Python runs at exit: the system frees all memory anyway."""
    if "duckdb" not in sys.modules:  # duckdb would report the objects that are skipped as leaks
        gc.freeze()


class Printed(logging.Handler):
    """Prints what the library logs, such as that kernels are being compiled, on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        from fastgtn.cli.output import stderr

        stderr.print(record.getMessage(), markup=False)


def print_log() -> None:
    """Print the log of the library from now on."""
    log = logging.getLogger("fastgtn")
    log.setLevel(logging.INFO)
    log.addHandler(Printed())


def refuse(message: str) -> NoReturn:
    """Print a user's mistake in one line and stop."""
    from fastgtn.cli.output import complain

    complain(message)
    sys.exit(2)


def main() -> None:
    """Entry point of the `fastgtn` command."""
    start_fast()
    print_log()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot print α still shows the result
    try:
        with interruptible():
            app()
    except InputError as error:
        refuse(str(error))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        refuse(f"{place}{error.strerror or error}. This file or folder cannot be read or written: choose another one.")
    except MemoryError as error:
        refuse(f"there is not enough memory ({error}): use mini-batches (--set batch.size=1024) or a larger machine.")
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        refuse(f"there is not enough memory ({error}): use smaller layers, a smaller graph, or a larger machine.")
    except OverflowError as error:
        refuse(f"a number is too large ({error}): check the options and the config.")
