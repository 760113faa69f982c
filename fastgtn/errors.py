"""The exception for a user's mistake. The command line prints it as one line and exits with code 2."""

import difflib
import stat
from collections.abc import Iterable
from pathlib import Path

MOST_LISTED, SHOWN = 60, 10  # a list of more names is not read: a few of them show what names look like


class InputError(ValueError):
    """A user's input is wrong. The message says what was expected, what was found and what to do."""


def nearest(name: str, options: Iterable[str]) -> str:
    """The hint for a wrong name: ``did you mean "acm"?``, or valid names; of very many only a few."""
    known = sorted(options)
    close = difflib.get_close_matches(name, known, n=5, cutoff=0.5)
    if close:
        swapped = [
            word for word in close if sorted(word) == sorted(name)
        ]  # the same letters in another order are the most likely typing mistake
        return f'did you mean "{(swapped or close)[0]}"?'
    if len(known) > MOST_LISTED:
        return f"valid names are, for example: {', '.join(known[:SHOWN])}"
    return f"valid names are: {', '.join(known)}" if known else "there are no valid names"


def check_run_folder(path: Path) -> None:
    """Refuse a run folder that does not exist; the message names the most similar folder beside it."""
    if path.is_dir():
        return
    if path.is_file():
        raise InputError(f"{path} is a file, not a run folder: give the folder that the training printed.")
    try:
        beside = [folder.name for folder in path.parent.iterdir() if folder.is_dir()]
    except OSError:
        beside = []
    close = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.6)
    hint = f'did you mean "{path.parent / close[0]}"?' if close else "give the folder that the training printed."
    raise InputError(f"the run folder {path} does not exist: {hint}")


def check_regular(path: Path) -> None:
    """Refuse pipes, sockets and devices, whose end may never come. A path that does not exist is not refused here."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise InputError(f"{path} is a pipe, a socket or a device; a file or a folder is needed.")
