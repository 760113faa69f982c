"""The picture in docs/architecture.md is true: who may import whom, and what is nobody's business."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fastgtn"
MODULES = sorted(PACKAGE.rglob("*.py"))
SHARED = {"errors", "lazy", "leftovers", "notebook", "options", "system"}  # every part may import these
UPWARD = {"runs/result.py": {"report"}}  # inside a function only; docs/architecture.md says why
OPEN = {"__init__", "__main__"} | SHARED


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


def imported_parts(path: Path, *, at_import: bool = False) -> set[str]:
    """The parts that a file imports anywhere, or when it is imported itself."""
    names = set()
    tree = ast.parse(path.read_text())
    for node in tree.body if at_import else ast.walk(tree):
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
    if own in OPEN:
        return
    allowed = arrows[own] | {own, *SHARED}
    upward = UPWARD.get(str(path.relative_to(PACKAGE)), set())
    assert imported_parts(path) <= allowed | upward, f"{own} may import {sorted(allowed)}"
    assert imported_parts(path, at_import=True) <= allowed


def test_every_part_is_in_the_picture():
    parts = {part(path) for path in MODULES} - OPEN
    assert parts == set(arrows_of_the_docs())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_stay_short_and_speak_through_the_command_line(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 350
    assert path.name not in ("utils.py", "common.py", "helpers.py", "misc.py")
    if part(path) != "cli":
        assert not re.search(r"^\s*print\(", text, re.MULTILINE)
    assert "fmt: skip" not in text
    assert not re.search(r"\bpickle\.loads?\(|allow_pickle=True", text)


def test_folders_stay_small() -> None:
    folders = {path.parent for path in MODULES}
    crowded = {str(folder.relative_to(ROOT)): count for folder in folders if (count := _num_files(folder)) > 14}
    assert not crowded, "more than fourteen files of code: group some of them in a folder"


def _num_files(folder: Path) -> int:
    return sum(path.parent == folder for path in MODULES)


def test_no_cycles_between_parts():
    arrows = arrows_of_the_docs()
    seen: list[str] = []
    while len(seen) < len(arrows):
        free = [name for name in arrows if name not in seen and arrows[name] <= set(seen)]
        assert free, f"a cycle among {set(arrows) - set(seen)}"
        seen += free
