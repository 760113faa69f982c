"""The command: facts and checks, one line each, for people and for bug reports."""

import typer

from fastgtn.cli.options import AsJson
from fastgtn.cli.output import emit_json, say


def doctor_command(as_json: AsJson = False) -> None:
    """Show versions, threads, memory and folders, and check whether the parts work. Paste the output into a bug report.

    Example: fastgtn doctor
    """
    from fastgtn.cli.doctor.facts import checks, facts

    found, tried = facts(), checks()
    if as_json:
        emit_json({"facts": found, "checks": {name: error or "works" for name, error in tried.items()}})
    else:
        for name, value in found.items():
            say(name, value)
        for name, error in tried.items():
            say(name, error or "works")
    if any(tried.values()):
        raise typer.Exit(1)
