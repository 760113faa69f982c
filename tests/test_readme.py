"""The examples of the README run as printed; commands, links and code in all pages are valid."""

import ast
import re
import shlex
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fastgtn.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
PAGES += sorted(ROOT.glob("examples/*/*.md"))
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def test_the_examples_have_ten_lines():
    assert len(EXAMPLES) == 2
    for code in EXAMPLES:
        assert len([line for line in code.splitlines() if line and "import" not in line]) <= 10


def test_the_first_example_finds_the_planted_path(capsys):
    exec(compile(EXAMPLES[0], "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert re.search(r"\n3 meta-paths from author.*\nmeta-path .*\nAPVPA ", out)
    assert "at node 5\n" in out


def test_the_second_example_prints_the_relations_and_the_logits(capsys):
    exec(compile(EXAMPLES[1], "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert "paper ← author  writes  (6 edges)" in out
    assert "torch.Size([4, 3])" in out


def test_own_data_takes_three_commands(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    three = [line for line in commands(README.split("## Your own data")[1].split("## Results")[0]) if "shops" in line]
    assert len(three) == 3
    for line in three:
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, result.output
    assert (tmp_path / "runs/shops-fast_gtn-0/report.html").stat().st_size > 10_000


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150
    assert (ROOT / "docs/images/report.png").stat().st_size < 300_000


@every_page
def test_links_lead_to_files_and_headings(page):
    for target, _, heading in re.findall(r"\]\(([^)#:\s]*)(#([^)\s]+))?\)", page.read_text()):
        file = (page.parent / target) if target else page
        assert file.exists(), f"{page.name} links to {target}"
        if heading:
            assert heading in anchors(file), f"{page.name} links to {target}#{heading}"


@every_page
def test_tests_that_the_pages_name_exist(page):
    for file, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text()):
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file} has no {name}"


@every_page
def test_files_that_the_pages_name_exist(page):
    for name in re.findall(r"`((?:fastgtn|tests|benchmarks|examples)/[\w/]+(?:\.\w+)?)`", page.read_text()):
        assert (ROOT / name).exists(), f"{page.name} names {name}"


@every_page
def test_code_in_the_pages_imports_names_that_exist(page):
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        imports = [node for node in ast.parse(code).body if isinstance(node, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module(imports, []), page.name, "exec"), {})


@every_page
def test_commands_in_the_pages_exist_with_their_options(page):
    for line in commands(page.read_text()):
        words = shlex.split(line, comments=True)
        command, rest = command_of(words[1:])
        known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
        used = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        assert used <= known, f"{line}: {sorted(used - known)}"


def commands(text: str) -> list[str]:
    """The lines of code blocks that call fastgtn, as one line each, and the calls between backticks."""
    fences = re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    blocks = [block for language, block in fences if language in ("", "bash")]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    inline = re.findall(r"`(fastgtn [a-z][^`]*)`", text)
    return [line.strip() for line in lines + inline if line.strip().startswith("fastgtn ")]


@cache
def root_command() -> Any:
    return typer.main.get_command(app)


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words name, and the words after its name."""
    command = root_command()
    while hasattr(command, "get_command") and words and not words[0].startswith("-"):
        found = command.get_command(typer.Context(command), words[0])
        assert found is not None, f"there is no command {words[0]}"
        command, words = found, words[1:]
    return command, words


def anchors(file: Path) -> set[str]:
    """The headings of a page as they are written in links."""
    titles = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
