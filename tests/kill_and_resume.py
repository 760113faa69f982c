"""Train many times, each time killed at another moment, and continue; test_resume.py starts it in its own process.

Processes are forked before torch or numba have started a thread, so that the imports are paid for once.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from quick_config import quick

from fastgtn.runs import train


def in_child(
    out: Path, dataset: str, sections: dict[str, dict[str, object]], *, kill_at: int | None
) -> tuple[int, int]:
    """Train or resume in a child that dies before its n-th rename; the signal, and how many renames there were."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        renames, rename = 0, Path.replace

        def counted(self: Path, target: Path) -> Path:
            nonlocal renames
            renames += 1
            if renames == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(self, target)

        Path.replace = counted  # type: ignore[method-assign, assignment]
        train(quick(dataset, **sections), out=out, resume=True)
        os.write(write, renames.to_bytes(4))
        os._exit(0)
    os.close(write)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, int.from_bytes(os.read(read, 4))


def main(folder: Path, dataset: str) -> None:
    # with dropout and an average: all that a checkpoint can hold
    sections: dict[str, Any] = {"fit": {"runs": 2, "average": 0.9, "trial_seconds": 0.0}}
    signal_number, moments = in_child(folder / "undisturbed", dataset, sections, kill_at=None)
    assert signal_number == 0
    for moment in range(1, moments + 1, 5):
        out = folder / f"killed-{moment}"
        assert in_child(out, dataset, sections, kill_at=moment)[0] == signal.SIGKILL
        in_child(out, dataset, sections, kill_at=3)  # once more, soon after; the rest may need fewer renames
        assert in_child(out, dataset, sections, kill_at=None)[0] == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
