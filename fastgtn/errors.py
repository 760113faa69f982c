"""The one exception for a user's mistake: the command line turns it into one line and exit code 2."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """A value from outside is wrong. The message says what was expected, what came, and what to do."""


def nearest(name: str, options: Iterable[str]) -> str:
    """Answer a wrong name: ``no … "amc"; did you mean "acm"?`` or the list of what exists."""
    known = sorted(options)
    close = difflib.get_close_matches(name, known, n=5, cutoff=0.5)
    if close:
        swapped = [word for word in close if sorted(word) == sorted(name)]  # the same letters: a slip of the fingers
        return f'did you mean "{(swapped or close)[0]}"?'
    return f"there are: {', '.join(known)}" if known else "there are none"
