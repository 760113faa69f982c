"""Ctrl-C ends a command, also where Python or a C extension ignores it or turns it into another error."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fastgtn.cli
from fastgtn.cli import interrupts
from fastgtn.errors import InputError

LOST = """
import signal, sys
from fastgtn.cli.interrupts import {context}
class Unlucky:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
with {context}():
    Unlucky()
    print("went on")
"""


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Interrupts are heard, also where the tests themselves run as a background job, in which they are ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_becomes(error: Exception) -> None:
    """What C extensions do: `could not determine the shape of object type`, where the shape was asked for."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise error from None


@pytest.mark.parametrize("error", [ValueError("no shape"), RuntimeError("no lock"), InputError("the file is damaged")])
def test_an_error_that_follows_an_interrupt_is_one(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fastgtn.cli, "app", lambda: interrupt_becomes(error))
    monkeypatch.setattr(fastgtn.cli, "start_fast", lambda: None)
    monkeypatch.setattr(fastgtn.cli, "print_log", lambda: None)
    with pytest.raises(SystemExit) as ended:
        fastgtn.cli.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Aborted.\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ValueError, match="no shape"), interrupts.interruptible():
        raise ValueError("no shape")
    with pytest.raises(KeyboardInterrupt), interrupts.interruptible():
        signal.raise_signal(signal.SIGINT)


def test_a_background_job_still_ignores_interrupts() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts.interruptible():
            signal.raise_signal(signal.SIGINT)
    finally:
        assert signal.signal(signal.SIGINT, before) is signal.SIG_IGN


def test_an_interrupt_that_python_ignores_still_ends_a_server() -> None:
    script = LOST.format(context="ended_by_interrupts")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "")


def test_a_server_is_loaded_and_run_where_interrupts_end_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []

    def load_run(*_: object, **__: object) -> None:
        seen.append(signal.getsignal(signal.SIGINT))
        raise InputError("stop here")

    monkeypatch.setattr("fastgtn.runs.load.load_run", load_run)
    CliRunner().invoke(fastgtn.cli.app, ["serve", str(tmp_path), "--port", "0"])
    assert seen == [signal.SIG_DFL]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
