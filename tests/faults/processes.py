"""One `fastgtn` command in a real process that is hurt while it runs.

Processes are forked from one that has imported everything but started no thread, so that a fault costs a fraction
of a second. Each has its own process group, which must be empty soon after it ends.
"""

import ctypes
import fcntl
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fastgtn.cli import main

CLEAN, MISTAKE, FOREIGN = 0, 2, 99
ABORTED = (1, 130)  # how a command ends that was interrupted with Ctrl-C
_PIPE_BYTES = 1 << 20
_CAPABILITY_VERSION = 0x20080522
_FILE_CAPABILITIES = 0b11111  # chown, ignoring permissions, acting as the owner


class Trouble(AssertionError):
    """A fault was not survived."""


@dataclass(frozen=True)
class End:
    """How a process ended: its exit code, or minus the signal that ended it, and what it printed to stderr."""

    code: int
    text: str

    def require(self, *codes: int, fault: str) -> None:
        """Trouble, if it ended otherwise, or showed a traceback instead of one clear line."""
        if self.code not in codes:
            raise Trouble(f"{fault} ends in {self.code} instead of {codes}: {self.text[-2000:]}")
        if self.code == MISTAKE and ("Traceback" in self.text or "error: " not in self.text):
            raise Trouble(f"{fault} ends without a clear message: {self.text[-2000:]}")


@dataclass(frozen=True)
class Process:
    """A running command."""

    pid: int
    output: int

    def signal(self, number: int, after: float) -> bool:
        """Send a signal after some seconds: Ctrl-C to the whole group, as a terminal does, others to the process.

        False if the process had ended before, so that nothing was disturbed.
        """
        until = time.monotonic() + after
        while (left := until - time.monotonic()) > 0 and not self.has_ended:
            time.sleep(min(left, 0.05))
        if self.has_ended:
            return False
        with suppress(ProcessLookupError):  # it may end at this moment
            (os.killpg if number == signal.SIGINT else os.kill)(self.pid, number)
        return True

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended; it can still be waited for."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def kill_worker(self) -> bool:
        """Kill one of the processes that it has started itself; False if there is none."""
        own = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        workers = [int(pid) for pid in own if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        if workers:
            os.kill(workers[-1], signal.SIGKILL)
        return bool(workers)

    def end(self, *, patience: int = 12_000, looks: int = 3000) -> End:
        """Wait for the process, and then for all that it started.

        Args:
            patience: How often to look whether the process has ended, twenty times a second; then it is killed.
            looks: The same for what it started.
        """
        while not self.has_ended:
            patience -= 1
            if patience < 0:
                os.killpg(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                os.close(self.output)
                raise Trouble("a command has not ended after ten minutes")
            time.sleep(0.05)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        while _is_alive(self.pid):
            looks -= 1  # not a clock: this process may be stopped for minutes
            if looks < 0:
                raise Trouble("a process outlives the command that started it by a minute")
            time.sleep(0.02)
        with os.fdopen(self.output, "rb") as pipe:
            return End(code, pipe.read().decode(errors="replace"))


def start(
    argv: Sequence[str],
    *,
    program: Callable[[], object] = main,
    disk: int | None = None,
    is_bound: bool = False,
    modules: Path | None = None,
) -> Process:
    """Start a command.

    Args:
        program: What runs with these words as `sys.argv`.
        disk: Bytes beyond which no file may grow, as on a full disk.
        is_bound: Permissions of files hold even for root.
        modules: A file that receives the names of all modules that the command has imported.
    """
    output, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)  # it is read at the end, so everything must fit
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # or Ctrl-C could end the child in the parent's code
    pid = os.fork()
    if pid == 0:
        code = FOREIGN
        try:
            code = _command(argv, program, write, disk, is_bound)
            if modules is not None:
                modules.write_text("\n".join(sys.modules))
        except KeyboardInterrupt:
            code = ABORTED[1]
        finally:
            os._exit(code)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with suppress(PermissionError, ProcessLookupError):  # the child may do it first
        os.setpgid(pid, pid)
    os.close(write)
    return Process(pid, output)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """No file can be made or deleted in a folder and in the folders below it."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    modes = [path.stat().st_mode for path in folders]
    for path in folders:
        path.chmod(0o555)
    try:
        yield
    finally:
        for path, mode in zip(folders, modes, strict=True):
            path.chmod(mode)


def _command(argv: Sequence[str], program: Callable[[], object], output: int, disk: int | None, is_bound: bool) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background jobs, and so a soak, ignore it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.setpgid(0, 0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(output, 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    if disk is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (disk, resource.RLIM_INFINITY))
    if is_bound:
        _give_up_privileges()
    sys.argv = ["fastgtn", *argv]
    try:
        program()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        raise
    except BaseException:
        traceback.print_exc()
        return FOREIGN
    finally:
        sys.stderr.flush()
    return CLEAN


def _give_up_privileges() -> None:
    """Clear the capabilities with which root ignores permissions."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    if libc.capget(header, sets) != 0:
        return
    sets[0] &= ~_FILE_CAPABILITIES & 0xFFFFFFFF
    libc.capset(header, sets)


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
