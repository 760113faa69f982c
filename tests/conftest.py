"""What all tests share: the folder of the real graphs, and a closing line that says what was not tested."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from fastgtn.training.prepare import setting

# The same examples in every run and on every machine, however busy; `--hypothesis-profile=default` draws others.
settings.register_profile(
    "same", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")
SECONDS_PER_NUMBER = setting.SECONDS_PER_NUMBER
REAL_GRAPHS = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_configure() -> None:
    setting.SECONDS_PER_NUMBER = 1e9  # no trials, also not in fixtures that several tests share
    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)  # the workers share the cores already


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Random numbers do not depend on the tests that the same process ran before, which are others in every run."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def real_graphs() -> Path:
    """The folder of the real graphs; where FASTGTN_DATA names it, it must be complete."""
    named = os.environ.get("FASTGTN_DATA")
    if named:
        return Path(named)
    if not REAL_GRAPHS.is_dir():
        pytest.skip(f"no real graphs: FASTGTN_DATA is not set and {REAL_GRAPHS} does not exist")
    return REAL_GRAPHS


@pytest.fixture(autouse=True)
def trials_where_marked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open keys take their first values, without trials, except in tests that are marked to have them."""
    if request.node.get_closest_marker("trials") is not None:
        monkeypatch.setattr(setting, "SECONDS_PER_NUMBER", SECONDS_PER_NUMBER)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    reasons: dict[str, int] = {}
    for report in skipped:
        reason = str(report.longrepr[2]).removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else "unknown"
        reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"not tested: {count}, {reason}")
