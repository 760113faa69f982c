"""The documentation site builds without a warning, and without anything from the network."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastgtn

ROOT = Path(__file__).parents[1]


def test_site_builds_without_warnings_and_loads_nothing_from_the_network(tmp_path):
    pytest.importorskip(
        "mkdocs", reason="the extra `docs` is not installed: pip install -c constraints.txt -e '.[docs]'"
    )
    pytest.importorskip("mkdocstrings", reason="the extra `docs` is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= 15
    for page in pages:
        assert not re.search(
            r"<(script|img)[^>]+src=\"https?:|<link[^>]+href=\"https?:[^>]+stylesheet", page.read_text()
        )


def test_every_public_name_is_in_the_reference():
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    named = {line.rsplit(".", 1)[-1] for line in re.findall(r"^::: (\S+)$", pages, re.MULTILINE)}
    assert sorted(set(fastgtn.__all__) - named) == []


def test_roles_of_docstrings_become_plain_code():
    pytest.importorskip("griffe", reason="the extra `docs` is not installed")
    spec = importlib.util.spec_from_file_location("plain_roles", ROOT / "docs" / "plain_roles.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = "Mix.\n\n.. math:: Q = a\n\nSee :meth:`~Stack.mix` and :math:`x_i`."
    assert module.plain(text) == "Mix.\n\n```text\nQ = a\n```\n\nSee `Stack.mix` and `x_i`."
