"""The counts of a soak. They are stored after every step, so that an interrupted soak continues with them."""

import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from faults.fuzzing import KEYS

ROOT = Path(__file__).parents[2]
HARM = ("not survived", "lost results", "differing files")


class OtherVersion(ValueError):
    """Counts that belong to another version of the program or of its tests."""


@dataclass
class Counts:
    """What one worker has done.

    Args:
        table: For each door or command, how often each ending or fault occurred.
        spent: For each door, its processor time in seconds.
        harm: What must stay zero: see `HARM`.
        troubles: One line for each failure.
        steps: How many batches of inputs, or faults, are behind it.
        seconds: How long it has run in all.
        source: Which version was running.
    """

    table: dict[str, Counter[str]] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    harm: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    source: str = ""

    @classmethod
    def load(cls, file: Path, source: str) -> "Counts":
        """Continue with the counts in a file; new ones if there is none."""
        if not file.exists():
            return cls(source=source)
        stored = json.loads(file.read_text())
        if stored["source"] != source:
            raise OtherVersion(f"{file} has the counts of another version: delete it to begin a new soak.")
        stored["table"] = {name: Counter(counts) for name, counts in stored["table"].items()}
        return cls(**stored | {"harm": Counter(stored["harm"])})

    def store(self, file: Path) -> None:
        """Write the counts, whole or not at all."""
        new = file.with_suffix(".new")
        new.write_text(json.dumps(vars(self)))
        os.replace(new, file)

    @property
    def total(self) -> int:
        """How many inputs or faults there were."""
        return sum(counts.total() for counts in self.table.values())

    @property
    def is_clean(self) -> bool:
        """Whether nothing failed."""
        failed = sum(counts["foreign"] + counts["crash"] for counts in self.table.values())
        return not (failed or self.harm.total() or self.troubles)


def fingerprint() -> str:
    """A hash of the program and of these tests."""
    paths = [path for folder in ("fastgtn", "tests/faults") for path in sorted((ROOT / folder).rglob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def tables(inputs: Counts, faults: Counts) -> str:
    """The counts as docs/reliability.md shows them."""
    lines = ["| door | tried | read | refused | other errors | crashes |", "|---|---|---|---|---|---|"]
    every: Counter[str] = sum(inputs.table.values(), Counter())
    for name, counts in [*inputs.table.items(), ("**all**", every)]:
        shown = " | ".join(f"{counts[key]:,}" for key in KEYS)
        lines.append(f"| {name} | {counts.total():,} | {shown} |")
    kinds = sorted({kind for counts in faults.table.values() for kind in counts})
    lines += ["", f"| command | {' | '.join(kinds)} | all |", "|---" * (len(kinds) + 2) + "|"]
    every = sum(faults.table.values(), Counter())
    for name, counts in [*faults.table.items(), ("**all**", every)]:
        shown = " | ".join(f"{counts[kind]:,}" for kind in kinds)
        lines.append(f"| {name} | {shown} | {counts.total():,} |")
    harm = "; ".join(f"{name}: {faults.harm[name]}" for name in HARM)
    times = f"{inputs.seconds / 60:.0f} minutes of bad inputs beside {faults.seconds / 60:.0f} minutes of faults"
    return "\n".join([*lines, "", f"{times}. {harm}.", *inputs.troubles, *faults.troubles]) + "\n"
