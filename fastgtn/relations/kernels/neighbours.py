"""Estimate how many processors other programs leave free.

A team of threads is as slow as the thread that waits longest for a processor. On a machine that others use as well,
fewer threads finish the same work sooner, so the kernels look at the load before they use a team.
"""

import os
import time

import torch

_EVERY = 0.02  # seconds between two looks: each costs some twenty microseconds


def free_threads() -> int:
    """The number of threads to use: torch's number, or fewer if other programs use the processors."""
    wanted = torch.get_num_threads()
    if wanted == 1 or not (others := busy_neighbours(wanted)):
        return wanted
    return max(1, min(wanted, (os.cpu_count() or 1) - others))


def busy_neighbours(own: int) -> int:
    """Runnable threads of other programs, at least: up to `own` of those that run may be ours."""
    global _seen_at, _running
    now = time.monotonic()
    if now - _seen_at > _EVERY:
        _seen_at, _running = now, _runnable()
    return max(0, _running - own)


def _runnable() -> int:
    """Threads of the whole machine that run or wait for a processor; 0 if the system does not report it."""
    try:
        with open("/proc/loadavg") as file:
            return int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 0


_seen_at, _running = -_EVERY, 0
