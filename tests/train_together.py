"""Train with several processes and with one; test_distributed.py starts it in its own process.

Processes are forked before torch or numba have started a thread, so that the imports are paid for once.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from ports import free_port
from quick_config import quick

from fastgtn.runs import train
from fastgtn.training.team import joined


def together(size: int, out: Path, dataset: str, sections: dict[str, Any]) -> None:
    """One training by so many processes, as torchrun would start them."""
    port = free_port()
    children = []
    for rank in range(size):
        pid = os.fork()
        if pid == 0:
            os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
            os.environ["MASTER_PORT"] = str(port)
            with joined() as team:
                assert (team.rank, team.size) == (rank, size)
                train(quick(dataset, **sections), out=out, team=team)
            os._exit(0)
        children.append(pid)
    statuses = [os.waitpid(pid, 0)[1] for pid in children]
    assert statuses == [0] * size, statuses


if __name__ == "__main__":
    folder, dataset = Path(sys.argv[1]), sys.argv[2]
    for name, size, sections in json.loads(sys.argv[3]):
        together(size, folder / f"{name}-{size}", dataset, sections)
