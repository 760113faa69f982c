"""Names from files reach terminals and spreadsheets as text: nothing in them is obeyed."""

import io
import re

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from rich.table import Table
from rich.text import Text

from fastgtn.cli import console, main, output
from fastgtn.cli.scores import say_classes
from fastgtn.config import Config
from fastgtn.errors import InputError
from fastgtn.runs.predictions import write_table

EVIL = "a\x1b[2J\x1b]0;title\x07b\x9b31m"
SHOWN = r"a\x1b[2J\x1b]0;title\x07b\x9b31m"


@pytest.fixture
def shown(monkeypatch):
    file = io.StringIO()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(console, name, console.PlainConsole(file=file, width=200, highlight=False))
    return file


def test_escape_sequences_are_shown_not_obeyed(shown):
    output.say("name", EVIL)
    output.complain(EVIL)
    table = Table(box=None)
    table.add_column(EVIL)
    table.add_row(EVIL)
    table.add_row(Text(EVIL, style="bold"))
    output.emit_table(table)
    assert shown.getvalue().count(SHOWN) + shown.getvalue().count(SHOWN.replace(r"\x07", "")) == 5  # rich drops bells
    assert "\x1b" not in shown.getvalue()
    assert "\x9b" not in shown.getvalue()


def test_ordinary_names_stay_as_they_are(shown):
    output.say("name", "Köln → 北京 α²")
    assert shown.getvalue() == "name    Köln → 北京 α²\n"


def test_names_between_colons_are_no_pictures(capsys):
    output.say("name", ":key: [b]")
    assert capsys.readouterr().out == "name    :key: [b]\n"


def test_no_color_is_respected(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    file = io.StringIO()
    console.PlainConsole(file=file, force_terminal=True).print("error", style="red")
    assert "31m" not in file.getvalue()


def test_cells_of_csv_files_are_not_formulas(tmp_path):
    cells = ["=1+1", "+1", "-1", "@x", "\ty", "plain", "a=b", ""]
    table = pa.table({"node": cells, "predicted": cells, "p_=x": [0.5] * 8, "=head": [-1.0] * 8})
    write_table(table, tmp_path / "p.csv")
    read = pyarrow.csv.read_csv(
        tmp_path / "p.csv", convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=False)
    )
    assert read["node"].to_pylist() == ["'=1+1", "'+1", "'-1", "'@x", "'\ty", "plain", "a=b", ""]
    assert read.column_names == ["node", "predicted", "p_=x", "'=head"]
    assert read["'=head"].to_pylist() == [-1.0] * 8
    write_table(table, tmp_path / "p.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "p.parquet")["node"].to_pylist() == cells


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "there is not enough memory .* smaller layers"),
        (MemoryError("8 TB"), r"there is not enough memory \(8 TB\)"),
        (OverflowError("int too big"), "a number is too large"),
    ],
)
def test_options_too_large_for_the_machine_end_in_one_line(error, message, monkeypatch, capsys):
    def fail():
        raise error

    monkeypatch.setattr("fastgtn.cli.app", fail)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert re.search(message, " ".join(capsys.readouterr().err.split()))


def test_powers_of_mixhop_have_a_limit():
    with pytest.raises(InputError, match="less than or equal to 100"):
        Config.of({"model": {"name": "mixhop", "powers": [0, 10**9]}})


@pytest.mark.parametrize(("scores", "is_said"), [((-0.2, 0.1), True), ((0.2, -0.1), False)])
def test_numbers_that_are_worse_than_their_mean_are_named(
    scores: tuple[float, float], is_said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    say_classes([{"seed": seed, "test": {"r2": score}} for seed, score in enumerate(scores)])
    assert ("always predicting their mean would be better" in capsys.readouterr().out) == is_said
