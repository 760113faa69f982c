"""The catalog of graphs: the data folder, dataset names, and the statistics of the paper."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fastgtn.errors import InputError, nearest

if TYPE_CHECKING:  # names and paths are looked up without importing torch
    from torch_geometric.data import HeteroData

    from fastgtn.data.archive.decode import Labels
    from fastgtn.data.task import NodeTask

BUILT_IN = "planted"


@dataclass(frozen=True)
class PaperStatistics:
    """One row of the paper's table of datasets; edges of homogeneous graphs are counted undirected."""

    nodes: int
    edges: int
    features: int
    classes: int
    train: int
    val: int
    test: int


TABLES = (".csv", ".tsv", ".gz", ".parquet", ".sqlite", ".db", ".xlsx", ".toml")
PAPER = {
    "dblp": PaperStatistics(18405, 67496, 334, 4, 800, 400, 2857),  # a typing error: the data have 67946 edges
    "acm": PaperStatistics(8994, 25922, 1902, 3, 600, 300, 2125),
    "imdb": PaperStatistics(12772, 37288, 1256, 3, 300, 300, 2339),
    "oag-cs": PaperStatistics(1116163, 28427508, 768, 3505, 147769, 33582, 46711),
    "oag-ml": PaperStatistics(227144, 4249598, 768, 1447, 19902, 6112, 7911),
    "oag-nn": PaperStatistics(66211, 845916, 768, 929, 4745, 1057, 2311),
    "airport": PaperStatistics(1190, 13599, 238, 4, 119, 238, 833),
    "blogcatalog": PaperStatistics(5196, 171743, 8189, 6, 519, 1039, 3638),
    "citeseer": PaperStatistics(3327, 4552, 3703, 6, 120, 500, 1000),
    "cora": PaperStatistics(2708, 5278, 1433, 7, 140, 500, 1000),
    "flickr": PaperStatistics(7575, 239738, 12047, 9, 757, 1515, 5303),
    "ppi": PaperStatistics(10076, 157213, 50, 121, 1007, 2015, 7054),
}


def load(
    name_or_path: str | Path, *, data_dir: str | Path | None = None, seed: int = 0, val_fraction: float = 0.2
) -> tuple[HeteroData, NodeTask | None]:
    """Load a graph and its task: by name from the data folder, from an archive's path, or the built-in "planted".

    Args:
        seed: Seed of the validation split if the archive has none; it does not change the graph.
        val_fraction: Share of the training nodes that is drawn in that case.
    """
    path = locate(name_or_path, data_dir=data_dir)
    if path is None:
        from fastgtn.data.synthetic.planted import make_planted

        return make_planted()
    from fastgtn.data import archive

    return archive.read(path, val_fraction=val_fraction, seed=seed)


def load_labelled(
    name_or_path: str | Path, *, data_dir: str | Path | None = None, seed: int = 0
) -> tuple[HeteroData, NodeTask]:
    """As :func:`load`, for a graph that must have labels and splits."""
    graph, task = load(name_or_path, data_dir=data_dir, seed=seed)
    if task is None:
        raise InputError(
            f"{name_or_path} has no labels and splits, which this command needs: add a task to the graph (a section "
            "[task] in its graph.toml), or predict links with --task link."
        )
    return graph, task


def load_labels(name_or_path: str | Path, *, data_dir: str | Path | None = None) -> tuple[HeteroData, Labels | None]:
    """Load a graph with its labels as stored, even if they do not form a valid task, to inspect and check it."""
    from fastgtn.data import archive
    from fastgtn.data.archive.decode import Labels

    path = locate(name_or_path, data_dir=data_dir)
    if path is not None:
        return archive.read_labels(path)
    graph, task = load(BUILT_IN)
    assert task is not None
    return graph, Labels.of(task)


def checksum(
    name_or_path: str | Path,
    *,
    data_dir: str | Path | None = None,
    loaded: tuple[HeteroData, NodeTask | None] | None = None,
) -> str:
    """The sha256 of a graph's content, for the record of a run.

    Args:
        loaded: The graph and its task as :func:`load` returned them, so that the built-in graph is not made again.
    """
    from fastgtn.data import archive

    path = locate(name_or_path, data_dir=data_dir)
    return archive.checksum(path) if path is not None else archive.content_checksum(*(loaded or load(BUILT_IN)))


def locate(name_or_path: str | Path, *, data_dir: str | Path | None = None) -> Path | None:
    """The archive of a name or path, or None for the built-in graph."""
    text, path = str(name_or_path), Path(name_or_path)
    if text == BUILT_IN:
        return None
    refuse_tables(path)
    if path.suffix == ".npz" or len(path.parts) != 1 or path.is_absolute():
        return path
    found = available(data_dir)
    if text in found:
        return found[text]
    if (of_links := _of_links(text, data_dir)) is not None:
        return of_links
    if _is_archive(path):
        return path
    folder = data_folder(data_dir)
    if text in PAPER:
        how = (
            f'generate it with "fastgtn data make {text}"' if "oag" in text else 'import it with "fastgtn data import"'
        )
        raise InputError(
            f'the dataset "{text}" is not in {folder}: {how} (docs/importing.md), or give its folder with --data-dir.'
        )
    known = {*found, *PAPER, BUILT_IN, *linked(data_dir)}
    raise InputError(f'no dataset "{text}" in {folder}; {nearest(text, known)} (fastgtn data ls)')


def refuse_tables(path: Path) -> None:
    """A table, or a description of tables, is not yet a graph."""
    if path.suffix.lower() in TABLES and not path.is_dir():
        raise InputError(
            f"{path} is not a graph archive: describe your tables in a graph.toml, and build an archive from it with "
            '"fastgtn data build graph.toml --out my.npz" (docs/importing.md).'
        )


def available(data_dir: str | Path | None = None) -> dict[str, Path]:
    """The archives in the data folder by name, without the built-in graph."""
    return _archives(data_folder(data_dir))


def linked(data_dir: str | Path | None = None) -> dict[str, Path]:
    """The archives in the folder `links` of the data folder, by the shortest name that means one of them."""
    every = _archives(data_folder(data_dir) / "links")
    found = {}
    for name, path in every.items():
        words = name.split("_")
        endings = ["_".join(words[first:]) for first in reversed(range(len(words)))]
        found[next((short for short in endings if _of_links(short, data_dir) == path), name)] = path
    return found


def _of_links(text: str, data_dir: str | Path | None) -> Path | None:
    """The archive of links that a name, or the last words of a name, mean."""
    links = _archives(data_folder(data_dir) / "links")
    ending = [path for name, path in links.items() if name == text or name.endswith(f"_{text}")]
    return ending[0] if len(ending) == 1 else None


def _archives(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        return {}
    archives = (path for path in sorted(folder.iterdir()) if _is_archive(path) and path.name[0] != ".")
    return {path.name.removesuffix(".npz"): path for path in archives}


def data_folder(data_dir: str | Path | None = None) -> Path:
    """The data folder: `data_dir`, else FASTGTN_DATA, else ../shared/data, else the user's cache."""
    named = data_dir or os.environ.get("FASTGTN_DATA")
    if named:
        folder = Path(named).expanduser()
        if not folder.is_dir():
            raise InputError(f"the data folder {folder} does not exist: set --data-dir or FASTGTN_DATA.")
        return folder
    beside_the_source = Path(__file__).resolve().parents[3] / "shared" / "data"
    if beside_the_source.is_dir():
        return beside_the_source
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastgtn"


def _is_archive(path: Path) -> bool:
    return (path.suffix == ".npz" and path.is_file()) or (path / "num_nodes.npy").is_file()
