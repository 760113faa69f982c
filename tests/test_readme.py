"""The examples of the README run as printed."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples_run(code, capsys):
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_the_first_example_has_ten_lines_and_names_what_it_prints(capsys):
    lines = [line for line in EXAMPLES[0].splitlines() if line and "import" not in line]
    assert len(lines) <= 10
    exec(compile(EXAMPLES[0], "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert "paper ← author  writes  (6 edges)" in out
    assert "torch.Size([4, 3])" in out


def test_the_second_example_finds_the_planted_path(capsys):
    exec(compile(EXAMPLES[1], "README.md", "exec"), {})
    assert "\n1 APVPA" in capsys.readouterr().out


def test_links_lead_somewhere():
    root = Path(__file__).parents[1]
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (root / target).exists(), target
