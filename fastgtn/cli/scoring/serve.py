"""`fastgtn serve`: answer predictions over HTTP."""

from importlib.util import find_spec
from typing import Annotated

import typer

from fastgtn.cli.choose import is_link_run
from fastgtn.cli.interrupts import ended_by_interrupts
from fastgtn.cli.options import DataDir, RunFolder, RunGraph, RunSeed
from fastgtn.cli.output import noted, say, stderr
from fastgtn.errors import InputError, check_run_folder


def serve_command(
    run: RunFolder,
    host: Annotated[str, typer.Option(help="The address to listen on. Other machines cannot reach the default.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    graph: RunGraph = None,
    seed: RunSeed = None,
    max_nodes: Annotated[int, typer.Option(help="Nodes of one request.", min=1)] = 1_000,
    max_kilobytes: Annotated[int, typer.Option(help="Size of one request.", min=1)] = 1_000,
    data_dir: DataDir = None,
) -> None:
    """Answer predictions over HTTP until Ctrl-C.

    Example: fastgtn serve runs/imdb-fast_gtn-0 --port 8000
    """
    check_run_folder(run)
    if is_link_run(run):
        raise InputError(f"{run} is a model of links: fastgtn serve answers for models of nodes.")
    if missing := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
        raise InputError(f"fastgtn serve needs {' and '.join(missing)}: run pip install 'fastgtn[serve]'.")
    with ended_by_interrupts():
        from fastgtn.runs.load import load_run
        from fastgtn.serve.app import build_app, is_loopback
        from fastgtn.serve.scorer import Scorer
        from fastgtn.serve.server import listening, run_server

        place = listening(host, port)
        trained = load_run(run, seed=seed, graph=graph, data_dir=data_dir)
        with noted():
            scorer = Scorer(trained)
        if not is_loopback(host):
            stderr.print(
                f"warning: everyone who can reach {host} can use this server; it has no password and no encryption.",
                markup=False,
            )
        app = build_app(scorer, host=host, max_nodes=max_nodes, max_bytes=1_000 * max_kilobytes)
        run_server(app, place, announce=lambda url: say("serving", f"{url} · {trained.folder} (Ctrl-C stops it)"))
        say("stopped", "all requests that had begun were answered")
