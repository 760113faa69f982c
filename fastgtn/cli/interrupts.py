"""Ctrl-C ends a command at whatever moment it comes.

Python turns SIGINT into an exception. In a destructor this exception is ignored, also in functions that are called when
an object is deleted, as each import does. C extensions may ignore it as well, or raise another error instead.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 128 + signal.SIGINT  # the exit code that shells expect


@contextmanager
def interruptible() -> Iterator[None]:
    """Take an error that follows Ctrl-C for the interrupt that it is, instead of blaming the user's files for it."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not _is_main_thread():
        yield  # such as a background job of a shell, which ignores Ctrl-C
        return
    asked = False

    def interrupted(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    except Exception:
        if not asked:
            raise
        sys.stderr.write("Aborted.\n")
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """Let Ctrl-C end the process without an exception: a server that missed it would start and never end."""
    if not _is_main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_main_thread() -> bool:
    """Only the main thread may set what a signal does."""
    return threading.current_thread() is threading.main_thread()
