"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from fastgtn.cli import complete

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
DataDir = Annotated[
    Path | None, typer.Option(help="Folder of the datasets. Default: FASTGTN_DATA, or the cache folder.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set any key of the config, such as model.path_length=3.",
        autocompletion=complete.config_settings,
    ),
]
Dataset = Annotated[str | None, typer.Option(help="Name of a dataset (fastgtn ls).", autocompletion=complete.datasets)]
Model = Annotated[str | None, typer.Option(help="Name of a model (fastgtn ls).", autocompletion=complete.models)]

TaskKind = Annotated[
    str | None,
    typer.Option(help="node: predict labels of nodes; link: predict edges. Default: what the config or --link says."),
]
LinkRelation = Annotated[
    str | None,
    typer.Option(metavar="RELATION", help="Predict the edges of this relation, as --task link does."),
]
LinkNegatives = Annotated[
    str | None,
    typer.Option(help="Links: how pairs that are not links are drawn: uniform, degree or two_hop. Default: uniform."),
]
LinkSplit = Annotated[str | None, typer.Option(help="Links: how they are split: random or time. Default: random.")]

# of the commands that use a trained run
RunFolder = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run folder, or the folder of one seed.", autocompletion=complete.run_folders),
]
RunSeed = Annotated[
    int | None,
    typer.Option(help="A seed of the run. Default: the best one on validation; the first one for a link model."),
]
RunGraph = Annotated[
    str | None, typer.Option(help="Another graph of the same schema, or the graph of the training in its new place.")
]
