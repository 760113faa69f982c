"""The amount of free memory, and the refusal of a training that would not fit."""

import os
from pathlib import Path

from fastgtn.config import Config
from fastgtn.errors import InputError
from fastgtn.training.memory import SUGGESTED, MemoryPlan

ROOT = Path("/")


def free_memory(root: Path = ROOT) -> float | None:
    """Bytes that this process may still allocate, within the limit of its control group; None if unknown."""
    found = [_meminfo(root / "proc/meminfo")]
    groups = root / "sys/fs/cgroup"
    found.append(_left(groups / "memory.max", groups / "memory.current", groups / "memory.stat"))
    old = groups / "memory"
    found.append(_left(old / "memory.limit_in_bytes", old / "memory.usage_in_bytes", old / "memory.stat"))
    known = [value for value in found if value is not None]
    return min(known) if known else None


def require_memory(plan: MemoryPlan, config: Config) -> None:
    """Refuse a training that would not fit, with figures and a suggestion."""
    free = config.fit.max_memory_gb * 1e9 or free_memory()
    if free is None:
        return
    if not config.fit.max_memory_gb:
        free /= int(
            os.environ.get("LOCAL_WORLD_SIZE", "1")
        )  # torchrun's other processes on this machine need the same amount
    in_batches = config.batch.size > 0
    training = plan.mini_batch if in_batches else plan.full_batch
    need = plan.graph + max(training, plan.inference)
    if need <= free:
        return
    raise InputError(
        f"{'training in mini-batches' if in_batches else 'full batch'} needs about {_gb(need)}, {_gb(free)} are free: "
        f"{_way_out(plan, config, free)} To override this limit, set fit.max_memory_gb={need / 1e9:.0f}."
    )


def _way_out(plan: MemoryPlan, config: Config, free: float) -> str:
    if plan.graph > free:
        return f"the graph alone needs about {_gb(plan.graph)}, so use a larger machine or a part of the graph."
    if plan.graph + plan.inference > free and config.batch.eval != "batches":
        return "evaluate on sampled neighbourhoods too, set batch.size=1024 and batch.eval=batches."
    if not config.batch.size:
        return f"set batch.size={SUGGESTED.size} (about {_gb(plan.graph + plan.mini_batch)})."
    return f"lower batch.size (now {config.batch.size}), batch.fanouts or batch.prefetch (now {config.batch.prefetch})."


def _meminfo(path: Path) -> float | None:
    try:
        lines = path.read_text().splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None


def _left(limit: Path, used: Path, statistics: Path) -> float | None:
    """Bytes left in a control group; cached files count as free."""
    try:
        most = float(limit.read_text())
        cached = dict(line.split() for line in statistics.read_text().splitlines())
        return most - float(used.read_text()) + float(cached.get("inactive_file", 0))
    except (OSError, ValueError):  # no group, or no limit ("max")
        return None


def _gb(number: float) -> str:
    return f"{number / 1e9:.1f} GB" if number < 1e10 else f"{number / 1e9:,.0f} GB"
