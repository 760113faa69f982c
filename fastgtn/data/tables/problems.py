"""All mistakes of all tables at once, instead of one per attempt."""

from collections.abc import Iterator
from contextlib import contextmanager

from fastgtn.errors import InputError

MOST_SHOWN = 20


class Problems:
    """Collects the messages of several steps, to be raised together."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Record a user's mistake, and continue after the block."""
        try:
            yield
        except InputError as error:
            self.messages.append(str(error))

    def raise_any(self) -> None:
        """One mistake as it is; several with numbers."""
        if not self.messages:
            return
        if len(self.messages) == 1:
            raise InputError(self.messages[0])
        shown = " ".join(f"({i}) {text}" for i, text in enumerate(self.messages[:MOST_SHOWN], 1))
        rest = len(self.messages) - MOST_SHOWN
        raise InputError(f"{len(self.messages)} problems: {shown}" + (f" … and {rest} more." if rest > 0 else ""))
