"""A child process that answers requests: each request and answer is one line of JSON; bytes may follow an answer."""

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from fastgtn.errors import InputError

START = Path(__file__).with_name("start.py")
RESERVED = 4 << 30  # address space that libraries and thread stacks reserve but do not use


class Child:
    """A Python process that runs one script of this package under limits of memory and time.

    A crash, an endless loop or excessive memory use ends the child, never the caller. No pickle passes between them.

    Args:
        script: The script; it reads requests from stdin and answers on stdout.
        folder: Its working directory.
        memory: Limit in bytes, on systems that support it (not on Windows).
    """

    def __init__(self, script: Path, *, folder: Path, memory: int) -> None:
        # absolute paths: an empty or relative entry would refer to the working directory of the child
        search = [os.path.abspath(entry) for entry in sys.path if entry]
        command = [sys.executable, "-I", str(START), str(script.resolve()), str(memory + RESERVED), *search]
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def ask(self, request: dict[str, Any], *, seconds: float, what: str) -> dict[str, Any]:
        """Send a request and wait for the answer.

        Args:
            seconds: Time limit of the answer.
            what: Description of what is read, for the error message if the child ends without an answer.
        """
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            answer = self._exchange(json.dumps(request).encode() + b"\n")
        finally:
            timer.cancel()
        if not answer:
            raise InputError(f"{what} {self._end(late.is_set(), seconds)}")
        reply: dict[str, Any] = json.loads(answer)
        return reply

    @property
    def stream(self) -> IO[bytes]:
        """Bytes that follow an answer."""
        assert self._process.stdout is not None
        return self._process.stdout

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # the reader of the remaining bytes is gone
                    pipe.close()
        self._process.wait()

    def _exchange(self, line: bytes) -> bytes:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:  # the child is gone
            return b""
        return self.stream.readline()

    def _end(self, was_late: bool, seconds: float) -> str:
        self._process.kill()
        code = self._process.wait()
        if was_late:
            return f"took more than {seconds:,.0f} seconds and was stopped: make it smaller, or check the file."
        return (
            f"ended the process that reads it (exit code {code}), because memory ran out or the file is damaged: "
            "make it smaller, or check the file."
        )
