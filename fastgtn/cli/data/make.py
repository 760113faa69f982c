"""`fastgtn data make`: generate a graph, with one command per kind."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fastgtn.cli.data.build import Force, Out, check_free, report, step_bar
from fastgtn.cli.options import AsJson

app = typer.Typer(help="Generate a graph with a planted answer, or with the shape of OAG.", no_args_is_help=True)


class Precision(StrEnum):
    """How features are stored."""

    float16 = "float16"
    float32 = "float32"


Scale = Annotated[float, typer.Option(help="Scale factor of the numbers of nodes, edges, venues and targets.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same graph.")]
Stored = Annotated[Precision, typer.Option(help="Precision of the stored features.")]


@app.callback()
def make() -> None:
    """Generate a graph with a planted answer, or with the shape of OAG."""


@app.command()
def planted(
    out: Out,
    path: Annotated[
        str, typer.Option(help="The meta-path that the labels follow, such as APVPA, APTPA or APV.")
    ] = "APVPA",
    authors: Annotated[int, typer.Option(help="Number of authors.")] = 900,
    papers: Annotated[int, typer.Option(help="Number of papers.")] = 900,
    venues: Annotated[int, typer.Option(help="Number of venues.")] = 60,
    terms: Annotated[int, typer.Option(help="Number of terms.")] = 140,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 3,
    features: Annotated[int, typer.Option(help="Width of the features.")] = 4,
    label_noise: Annotated[float, typer.Option(help="Share of wrong labels.")] = 0.05,
    feature_noise: Annotated[float, typer.Option(help="Noise on the features that reveal the topic.")] = 0.2,
    distraction: Annotated[float, typer.Option(help="Size of the uninformative features.")] = 0.02,
    edge_noise: Annotated[float, typer.Option(help="Share of edges on the path that ignore the topic.")] = 0.05,
    misleading: Annotated[int, typer.Option(help="Number of random relations to add, up to 3.")] = 1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same graph.")] = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Generate an academic graph whose labels follow one meta-path and no shorter one."""
    check_free(out, force)
    from fastgtn.data import archive
    from fastgtn.data.synthetic.planted import make_planted

    graph, task = make_planted(
        path,
        authors=authors,
        papers=papers,
        venues=venues,
        terms=terms,
        classes=classes,
        features=features,
        label_noise=label_noise,
        feature_noise=feature_noise,
        distraction=distraction,
        edge_noise=edge_noise,
        misleading=misleading,
        seed=seed,
    )
    archive.write(out, graph, task, planted=graph.planted, overwrite=force)
    report(graph, task, Path(out), as_json)


@app.command("random-schema")
def random_schema(
    out: Out,
    paths: Annotated[int, typer.Option(help="Number of meta-paths that determine the label, 1 or 2.")] = 1,
    types: Annotated[int | None, typer.Option(help="Number of node types; drawn from 2 to 8 by default.")] = None,
    relations: Annotated[int | None, typer.Option(help="Number of relations; drawn from 4 to 40 by default.")] = None,
    steps: Annotated[int | None, typer.Option(help="Length of the paths; drawn from 1 to 4 by default.")] = None,
    permuted: Annotated[
        bool, typer.Option("--permuted", help="Shuffle the labels, so that no path is informative.")
    ] = False,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Generate a graph with a random schema whose labels follow one or two planted meta-paths."""
    check_free(out, force)
    from fastgtn.data import archive
    from fastgtn.data.synthetic.random_schema import make_random_schema

    graph, task = make_random_schema(
        seed, paths=paths, types=types, relations=relations, steps=steps, permuted=permuted
    )
    archive.write(out, graph, task, planted=graph.planted, overwrite=force)
    report(graph, task, Path(out), as_json)


def _add_oag_command(name: str, size: str) -> None:
    @app.command(name, help=f"Generate a graph with the shape of {name.upper()}: {size}.")
    def make_one(
        out: Out,
        scale: Scale = 1.0,
        seed: Seed = 0,
        features: Stored = Precision.float16,
        force: Force = False,
        as_json: AsJson = False,
    ) -> None:
        from fastgtn.data import archive
        from fastgtn.data.synthetic.oag import NUM_STEPS, make_oag
        from fastgtn.data.synthetic.oag.shape import oag_shape

        oag_shape(name, scale)  # refuse wrong sizes before anything is printed
        check_free(out, force)
        with step_bar(NUM_STEPS + 1) as step:
            graph, task = make_oag(name, scale=scale, seed=seed, half=features is Precision.float16, progress=step)
            step(out.name)
            archive.write(out, graph, task, meta=graph.meta, overwrite=force)
        report(graph, task, out, as_json)


_add_oag_command("oag-nn", "66 thousand nodes, 0.8 million edges")
_add_oag_command("oag-ml", "227 thousand nodes, 4 million edges")
_add_oag_command("oag-cs", "1.1 million nodes, 28 million edges")
