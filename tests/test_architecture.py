"""The picture in docs/architecture.md is true: who may import whom, and what is nobody's business."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fastgtn"
MODULES = sorted(PACKAGE.rglob("*.py"))


def arrows_of_the_docs() -> dict[str, set[str]]:
    """Lines such as ``models → relations`` in the code block under "Import arrows"."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    block = text.split("## Import arrows")[1].split("```")[1]
    found = re.findall(r"^(\w+)\s*→\s*(.+)$", block, re.MULTILINE)
    return {source: {name.strip() for name in targets.split(",")} - {"nothing"} for source, targets in found}


def part(path: Path) -> str:
    """The part of the package that a file belongs to: a folder, or a file at the top."""
    inside = path.relative_to(PACKAGE)
    return inside.parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "fastgtn" else set()
    return {name.split(".")[1] for name in names if name.startswith("fastgtn.")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path):
    arrows = arrows_of_the_docs()
    own = part(path)
    if own in ("__init__", "__main__", "errors"):  # the public names, the command, and what everybody may import
        return
    allowed = arrows[own] | {own, "errors"}
    assert imported_parts(path) <= allowed, f"{own} may import {sorted(allowed)}"


def test_every_part_is_in_the_picture():
    parts = {part(path) for path in MODULES} - {"__init__", "__main__", "errors"}
    assert parts == set(arrows_of_the_docs())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_stay_short_and_speak_through_the_command_line(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 350
    assert path.name not in ("utils.py", "common.py", "helpers.py", "misc.py")
    if part(path) != "cli":
        assert not re.search(r"^\s*print\(", text, re.MULTILINE)
    assert not re.search(r"\bpickle\.loads?\(|allow_pickle=True", text)


def test_no_cycles_between_parts():
    arrows = arrows_of_the_docs()
    seen: list[str] = []
    while len(seen) < len(arrows):
        free = [name for name in arrows if name not in seen and arrows[name] <= set(seen)]
        assert free, f"a cycle among {set(arrows) - set(seen)}"
        seen += free
