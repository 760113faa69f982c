"""Kinds of columns, what they become, and that an encoding travels: fitted once, the same numbers ever after."""

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import archive, tables
from fastgtn.errors import InputError


def build(folder: Path, spec: str, values: list[str], *, like: tables.Encoding | None = None) -> tables.Encoding:
    """The encoding of one CSV column `c` of these values; `made` then holds the features."""
    rows = "".join(f'{i},"{value}"\n' if value else f"{i},\n" for i, value in enumerate(values))
    (folder / "t.csv").write_text(f"id,c\n{rows}", encoding="utf-8")
    (folder / "graph.toml").write_text(f'[nodes.t]\ntable = "t.csv"\nid = "id"\nfeatures = {spec}\n')
    graph, _ = tables.build(folder / "graph.toml", like=like)
    made.clear()
    made.update(dict(zip(graph.meta["features"]["t"], graph["t"].x.to_dense().T, strict=True)))
    return tables.Encoding.from_json(graph.encoding, where="t")


made: dict[str, torch.Tensor] = {}


KINDS = {
    "fractions": (["0.5", "2", "1.5"], "number"),
    "whole numbers": ([str(i * i) for i in range(40)], "number"),
    "flags": (["0", "1"] * 30, "number"),
    "few codes": (["10", "20", "40"] * 30, "code"),
    "counts": (["0"] * 50 + ["1"] * 30 + ["2"] * 10 + ["3"] * 2, "number"),
    "counts that rise and fall": (
        [str(k) for k, n in enumerate([9, 40, 70, 90, 60, 30, 8, 1]) for _ in range(n)],
        "number",
    ),
    "codes of equal frequency": ([str(1 + i % 8) for i in range(240)], "code"),
    "few long texts": (["cash at the desk of a bank", "card of a customer"] * 30, "category"),
    "missing words": (["1.5", "?", "2", "NA"], "number"),
    "dates": (["2024-01-31", "", "2024-05-01 12:30:00"], "date"),
    "few words": (["red", "blue", "red"], "category"),
    "sentences": (["a b c d e", "a b c d f"], "text"),
}


@pytest.mark.parametrize("case", KINDS)
@pytest.mark.filterwarnings("ignore:.*are missing")
def test_kinds_are_inferred_with_a_reason(case: str, tmp_path: Path) -> None:
    values, kind = KINDS[case]
    column = build(tmp_path, '["c"]', values).nodes["t"].columns[0]
    assert column.encoder.kind == kind
    assert len(column.why) > 5


def test_codes_by_their_name(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i % 40}\n" for i in range(400))
    for name, kind in (("district_id", "code"), ("districtCode", "code"), ("height", "number")):
        (tmp_path / "t.csv").write_text(f"id,{name}\n{rows}")
        (tmp_path / "graph.toml").write_text(f'[nodes.t]\ntable = "t.csv"\nid = "id"\nfeatures = ["{name}"]\n')
        graph, _ = tables.build(tmp_path / "graph.toml")
        assert graph.encoding["nodes"]["t"]["columns"][0]["encoder"]["kind"] == kind


def test_missing_numbers_are_filled_and_marked(tmp_path: Path) -> None:
    values = ["1", "", "3", "8"]
    with pytest.warns(UserWarning, match='"c": 1 of 4 values are missing; they take the median, .*"c=missing"'):
        build(tmp_path, '["c"]', values)
    assert made["c=missing"].tolist() == [0, 1, 0, 0]
    assert made["c"][1] == made["c"][2]
    for fill, value in (('"mean"', 4.0), ("7", 7.0), ('"median"', 3.0)):
        spec = f'{{ c = {{ kind = "number", standardize = false, fill = {fill} }} }}'
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what is stated needs no note
            build(tmp_path, spec, values)
        assert made["c"].tolist() == [1, value, 3, 8]


def test_numbers_that_are_missing_only_in_new_tables_are_noted(tmp_path: Path) -> None:
    like = build(tmp_path, '["c"]', ["1", "2", "6"])
    with pytest.warns(UserWarning, match="1 of 2 values are missing, which did not happen in training; .* value 2"):
        build(tmp_path, '["c"]', ["", "2"], like=like)
    assert made["c"][0] == made["c"][1]


def test_long_tails_take_the_logarithm(tmp_path: Path) -> None:
    values = [str(i % 10) for i in range(199)] + ["1000000"]
    column = build(tmp_path, '{ c = "number" }', values).nodes["t"].columns[0]
    assert "logarithm" in column.why
    logs = np.log1p(np.array([float(v) for v in values]))
    expected = torch.from_numpy((logs - logs.mean()) / logs.std()).float()
    torch.testing.assert_close(made["c"], expected)
    build(tmp_path, '{ c = { kind = "number", log = false } }', values)
    assert made["c"].max() > 10


def test_gaps_and_zeros_do_not_set_the_scale(tmp_path: Path) -> None:
    seen = [str(1000 + 10 * i) for i in range(20)]
    with pytest.warns(UserWarning, match="are missing"):
        build(tmp_path, '["c"]', seen + [""] * 180)
    assert made["c"][:20].std(correction=0) == pytest.approx(1, abs=1e-5)
    column = build(tmp_path, '["c"]', seen + ["0"] * 1980).nodes["t"].columns[0]
    assert "logarithm" not in column.why  # most rows have nothing; the others are alike


def test_dates_are_age_year_and_cycles(tmp_path: Path) -> None:
    column = build(tmp_path, '["c"]', ["2023-01-01", "2024-07-01 06:00:00", ""]).nodes["t"].columns[0]
    assert column.names[:2] == ["c=age", "c=year"]
    age, year = made["c=age"], made["c=year"]
    assert (age[0] > age[1], year[0] < year[1]) == (True, True)
    assert made["c=month sine"].tolist() == pytest.approx([0, 0, 0], abs=1e-6)  # January, July, nothing
    assert made["c=month cosine"].tolist() == pytest.approx([1, -1, 0], abs=1e-6)
    sunday = 2 * math.pi * 6 / 7
    assert made["c=weekday cosine"].tolist() == pytest.approx([math.cos(sunday), 1, 0], abs=1e-6)
    assert made["c=hour sine"].tolist() == pytest.approx([0, 1, 0], abs=1e-6)
    assert made["c=missing"].tolist() == [0, 0, 1]


def test_dates_in_other_formats(tmp_path: Path) -> None:
    expected = ["2024-05-31", "1999-12-01"]
    build(tmp_path, '["c"]', expected)
    iso = dict(made)
    unix = [str(int(np.datetime64(day, "s").astype(int))) for day in expected]
    for date_format, values in (
        ("%d.%m.%Y", ["31.05.2024", "01.12.1999"]),
        ("%Y%m%d", ["20240531", "19991201"]),
        ("unix", unix),
        ("unix_ms", [f"{second}000" for second in unix]),
    ):
        build(tmp_path, f'{{ c = {{ kind = "date", format = "{date_format}" }} }}', values)
        assert made.keys() == iso.keys()
        assert all(torch.equal(made[name], iso[name]) for name in made)
    with pytest.raises(InputError, match='holds numbers; state how to read them as dates: format = "unix"'):
        build(tmp_path, '{ c = "date" }', ["20240531"])
    with pytest.raises(InputError, match=r"must be dates such as 2024-05-31 .*, but holds 'yesterday'\. .*format"):
        build(tmp_path, '{ c = "date" }', ["yesterday"])
    with pytest.raises(InputError, match=r"""has the format "%d\.%m\.%Y", but holds '2024-05-31'\."""):
        build(tmp_path, '{ c = { kind = "date", format = "%d.%m.%Y" } }', ["2024-05-31"])


def test_unknown_values_are_zeros_and_counted(tmp_path: Path) -> None:
    like = build(tmp_path, '["c"]', ["red", "blue", "red"])
    with pytest.warns(UserWarning, match=r'2 of 3 rows have a value .* such as "green"; it is encoded as zeros'):
        build(tmp_path, '["c"]', ["green", "red", "pink"], like=like)
    assert {name: column.tolist() for name, column in made.items()} == {"c=blue": [0, 0, 0], "c=red": [0, 1, 0]}
    like = build(tmp_path, '{ c = "list" }', ["a|b", "b"])
    with pytest.warns(UserWarning, match='1 of 2 rows .* "x"'):
        build(tmp_path, '{ c = "list" }', ["x|a", "b"], like=like)


def test_text_stays_text_where_all_new_rows_look_like_numbers(tmp_path: Path) -> None:
    like = build(tmp_path, '["c"]', ["01", "A1", "02"])
    build(tmp_path, '["c"]', ["02", "01"], like=like)
    assert made["c=01"].tolist() == [0, 1]


def test_an_encoding_survives_json_and_the_archive_exactly(tmp_path: Path) -> None:
    values = [f"{v:.17g}" for v in np.random.default_rng(0).normal(size=50)]
    encoding = build(tmp_path, '["c"]', values)
    before = made["c"].clone()
    again = tables.Encoding.from_json(json.loads(json.dumps(encoding.to_json())), where="x")
    assert again == encoding
    build(tmp_path, '["c"]', values[:1], like=again)
    assert torch.equal(made["c"], before[:1])
    graph, task = tables.build(tmp_path / "graph.toml", like=encoding)
    archive.write(tmp_path / "g.npz", graph, task, meta=graph.meta)
    assert archive.read_encoding(tmp_path / "g.npz") == encoding.to_json()
    assert archive.read(tmp_path / "g.npz")[0].encoding == encoding.to_json()


def test_damaged_and_missing_encodings_are_named(tmp_path: Path) -> None:
    values = build(tmp_path, '["c"]', ["1", "2"]).to_json()
    with pytest.raises(InputError, match="version 9; this fastgtn reads up to 1"):
        tables.Encoding.from_json(values | {"version": 9}, where="x")
    values["nodes"]["t"]["columns"][0]["encoder"]["mean"] = "much"
    with pytest.raises(InputError, match=r"x: the stored encoding is damaged .*mean"):
        tables.Encoding.from_json(values, where="x")
    graph, task = tables.build(tmp_path / "graph.toml")
    del graph.encoding
    archive.write(tmp_path / "g.npz", graph, task)
    with pytest.raises(InputError, match="contains no encoding: only graphs that fastgtn data build"):
        archive.read_encoding(tmp_path / "g.npz")


def test_all_problems_of_all_tables_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x,y\n1,inf,red\n2,3,4\n")
    (tmp_path / "b.csv").write_text("id\n1\n1\n")
    (tmp_path / "graph.toml").write_text(
        '[nodes.a]\ntable = "a.csv"\nid = "id"\nfeatures = { x = "number", y = "number" }\n'
        '[nodes.b]\ntable = "b.csv"\nid = "id"\n'
    )
    with pytest.raises(InputError, match=r'3 problems: \(1\).*"x".*infinite.*\(2\).*"y".*text.*\(3\).*duplicate'):
        tables.build(tmp_path / "graph.toml")


def test_build_prints_kinds_and_notes(tmp_path: Path) -> None:
    build(tmp_path, '["c"]', ["red", "blue", ""])
    answer = CliRunner().invoke(app, ["data", "build", str(tmp_path / "graph.toml"), "--out", str(tmp_path / "g.npz")])
    assert answer.exit_code == 0, answer.output
    row = next(line for line in answer.stdout.splitlines() if "t.c" in line)
    assert row.split() == ["t.c", "category", "text,", "2", "values", "1", "2"]


def test_sparse_features_give_no_note_of_torch(tmp_path: Path) -> None:
    torch.set_warn_always(True)  # otherwise torch warns once per process
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            encoding = build(tmp_path, '{ c = "category" }', [f"v{i}" for i in range(30)])
    finally:
        torch.set_warn_always(False)
    assert encoding.nodes["t"].is_sparse


def test_another_node_type_than_the_encoding_is_refused(tmp_path: Path) -> None:
    like = build(tmp_path, '["c"]', ["1", "2"])
    (tmp_path / "graph.toml").write_text('[nodes.s]\ntable = "t.csv"\nid = "id"\n')
    with pytest.raises(InputError, match='has no node type "s"'):
        tables.build(tmp_path / "graph.toml", like=like)
