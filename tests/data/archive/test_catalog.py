"""Graphs are found by name, in the folder that was asked for."""

from pathlib import Path

import pytest
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask, archive, available, checksum, data_folder, load
from fastgtn.errors import InputError

Shop = tuple[HeteroData, NodeTask]


@pytest.fixture
def folder(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with one file and one folder archive, and things that are no archives."""
    monkeypatch.delenv("FASTGTN_DATA", raising=False)
    archive.write(tmp_path / "shop.npz", *shop)
    archive.write(tmp_path / "big_shop", *shop)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_archives_are_listed_by_name(folder: Path) -> None:
    assert list(available(folder)) == ["big_shop", "shop"]
    assert load("shop", data_dir=folder)[0].name == "shop"
    assert load("big_shop", data_dir=folder)[0].name == "shop"
    assert load(folder / "shop.npz")[0].name == "shop"
    assert checksum("shop", data_dir=folder) == checksum("big_shop", data_dir=folder)


def test_the_built_in_graph_is_made_once_for_itself_and_its_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    known, loaded = checksum("planted"), load("planted")
    monkeypatch.delattr("fastgtn.data.synthetic.planted.make_planted")
    assert checksum("planted", loaded=loaded) == known


def test_an_archive_has_its_own_checksum_whatever_was_loaded(folder: Path) -> None:
    assert checksum("shop", data_dir=folder, loaded=load("planted")) == checksum("shop", data_dir=folder)


def test_the_folder_is_the_option_then_the_variable_then_beside_the_source_then_the_cache(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTGTN_DATA", str(folder / "empty"))
    assert data_folder(folder) == folder
    assert data_folder() == folder / "empty"
    monkeypatch.delenv("FASTGTN_DATA")
    beside = tmp_path / "shared" / "data"
    monkeypatch.setattr("fastgtn.data.catalog.__file__", str(tmp_path / "main" / "fastgtn" / "data" / "catalog.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder() == tmp_path / "cache" / "fastgtn"
    assert available() == {}
    beside.mkdir(parents=True)
    assert data_folder() == beside


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shap", r'no dataset "shap" in .*; did you mean "shop"\? \(fastgtn data ls\)'),
        ("planned", 'did you mean "planted"'),
        ("ppi", '"ppi" is not in .*fastgtn data import'),
        ("missing.npz", "no graph archive at missing.npz"),
    ],
)
def test_a_wrong_name_answers_with_the_nearest(folder: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(name, data_dir=folder)


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data folder .* does not exist"):
        data_folder(tmp_path / "no")
