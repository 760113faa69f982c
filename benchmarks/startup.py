"""Processor time of start-up: `fastgtn --version` and other light commands beside `import torch` and a tiny training.

    python -m benchmarks.startup

Each command is started several times in turn, and the medians are compared: another process on the machine then
slows down all of them alike. The target for commands that compute nothing is 0.15 of `import torch`.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 5
LIMIT = 0.15
LIGHT = (
    "fastgtn --version",
    "fastgtn --help",
    "fastgtn train --help",
    "fastgtn ls",
    "fastgtn config fast_gtn imdb",
    "a mistyped key",
    "a press of Tab",
)
TAB = {"_FASTGTN_COMPLETE": "complete_bash", "COMP_WORDS": "fastgtn train --model fast", "COMP_CWORD": "3"}
ENTRY = "import sys; from fastgtn.cli import main; sys.argv = ['fastgtn', *{arguments!r}]; main()"


def main() -> None:
    """Print the table; exit code 1 if a command that computes nothing takes too long."""
    with tempfile.TemporaryDirectory() as folder:
        training = ["train", "--set", "fit.epochs=1", "--out", str(Path(folder) / "run"), "--json"]
        commands = {
            "python -c pass": "pass",
            "import torch": "import torch",
            "import fastgtn": "import fastgtn",
            "fastgtn --version": entry(["--version"]),
            "fastgtn --help": entry(["--help"]),
            "fastgtn train --help": entry(["train", "--help"]),
            "fastgtn ls": entry(["ls"]),
            "fastgtn config fast_gtn imdb": entry(["config", "fast_gtn", "imdb"]),
            "a mistyped key": entry(["train", "--set", "fit.epoks=3"]),
            "a press of Tab": f"import os; os.environ.update({TAB!r}); {entry([])}",
            "fastgtn train, one epoch": entry(training),
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(ROUNDS):
            for name, code in commands.items():
                seconds[name].append(processor_time(code.replace("/run'", f"/run-{number}'")))
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    print("| command | processor seconds | of `import torch` |\n|---|---|---|")
    for name, median in medians.items():
        print(f"| `{name}` | {median:.2f} | {median / medians['import torch']:.2f} |")
    own = medians["fastgtn train, one epoch"] - medians["import torch"]
    print(f"\nTraining a tiny graph takes {own:.2f} s more than importing torch.")
    for name in LIGHT:
        ratio = medians[name] / medians["import torch"]
        if ratio > LIMIT:
            sys.exit(f"{name} takes {ratio:.2f} of import torch; the target is {LIMIT}.")


def entry(arguments: list[str]) -> str:
    """Code that does what the command `fastgtn` does with these arguments."""
    return ENTRY.format(arguments=arguments)


def processor_time(code: str) -> float:
    """User and system seconds of a new Python process."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 2):  # 2: the mistake of a user, which is measured too
        raise RuntimeError(f"exit code {os.waitstatus_to_exitcode(status)} of: {code}")
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
