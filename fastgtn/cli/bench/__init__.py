"""`fastgtn bench`: the tables of the paper, with its numbers and ours side by side."""

import typer

from fastgtn.cli.bench.links import links_command
from fastgtn.cli.bench.measured import efficiency_command, exactness_command
from fastgtn.cli.bench.models import ablation_command, hgb_command, large_command, nodes_command

app = typer.Typer(help="Reproduce the tables of the paper, or compare all models on your graph.", no_args_is_help=True)
app.command("nodes")(nodes_command)
app.command("hgb")(hgb_command)
app.command("links")(links_command)
app.command("ablation")(ablation_command)
app.command("efficiency")(efficiency_command)
app.command("large")(large_command)
app.command("exactness")(exactness_command)

__all__ = ["app"]
