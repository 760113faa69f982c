"""`fastgtn data make`: graphs that are made, one command per kind."""

from pathlib import Path
from typing import Annotated

import typer

from fastgtn.cli.data_in import AsJson, Force, Out, check_free, report
from fastgtn.data import archive
from fastgtn.data.planted import make_planted

app = typer.Typer(help="Make a graph whose right answer is known.", no_args_is_help=True)


@app.callback()
def make() -> None:
    """Make a graph whose right answer is known."""


@app.command()
def planted(
    out: Out,
    path: Annotated[str, typer.Option(help="The meta-path that labels follow, such as APVPA, APTPA, APV.")] = "APVPA",
    authors: Annotated[int, typer.Option(help="Number of authors.")] = 900,
    papers: Annotated[int, typer.Option(help="Number of papers.")] = 900,
    venues: Annotated[int, typer.Option(help="Number of venues.")] = 60,
    terms: Annotated[int, typer.Option(help="Number of terms.")] = 140,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 3,
    features: Annotated[int, typer.Option(help="Width of the features.")] = 4,
    label_noise: Annotated[float, typer.Option(help="Share of labels that are wrong.")] = 0.05,
    feature_noise: Annotated[float, typer.Option(help="Noise on the features that tell a topic.")] = 0.2,
    distraction: Annotated[float, typer.Option(help="Size of the features that tell nothing.")] = 0.02,
    edge_noise: Annotated[float, typer.Option(help="Share of edges on the path that ignore the topic.")] = 0.05,
    misleading: Annotated[int, typer.Option(help="How many meaningless relations to add, up to 3.")] = 1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same graph.")] = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make an academic graph whose labels follow one meta-path and no shorter one."""
    check_free(out, force)
    graph, task = make_planted(
        path, authors=authors, papers=papers, venues=venues, terms=terms, classes=classes, features=features,
        label_noise=label_noise, feature_noise=feature_noise, distraction=distraction,
        edge_noise=edge_noise, misleading=misleading, seed=seed,
    )  # fmt: skip
    archive.write(out, graph, task, planted=graph.planted, overwrite=force)
    report(graph, task, Path(out), as_json)
