"""`fastgtn`, alone or as torchrun starts it; the last process is killed once:  killed_worker.py STEP MARK WORDS…

The kill comes after a number of optimizer steps and not after a time, so it is always in the middle of the training.
The file MARK says that it happened; there is no such step as 0.
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from fastgtn.cli import main


def kill_at(step: int, mark: Path) -> None:
    """End this process at once, as the system does when memory is short."""
    steps = count(1)

    def hook(*_: Any) -> None:
        if next(steps) == step:
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    register_optimizer_step_post_hook(hook)


if __name__ == "__main__":
    step, mark, *words = sys.argv[1:]
    is_last = int(os.environ.get("RANK", "0")) == int(os.environ.get("WORLD_SIZE", "1")) - 1
    if is_last and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        kill_at(int(step), Path(mark))
    sys.argv = ["fastgtn", *words]
    main()
