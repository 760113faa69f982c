"""From the options of a command to its task, graph, config or run.

Nothing here imports torch, so a mistyped name is refused at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastgtn.errors import InputError, nearest

if TYPE_CHECKING:
    from fastgtn.config import Config


def check_one_graph(dataset: str | None, graph: Path | None) -> None:
    """Refuse a dataset and a file at the same time."""
    if graph is not None and dataset is not None:
        raise InputError(
            "--dataset and --graph cannot be combined: give the name of a dataset or the file of your own graph."
        )


def is_link_task(task: str | None, config: Path | None = None, **of_links: object) -> bool:
    """Whether links are predicted: as `--task` says, or an option that only links have, or a section `[link]`."""
    if task not in (None, "node", "link"):
        raise InputError(f'no task "{task}"; {nearest(str(task), ("node", "link"))}')
    given = [name for name, value in of_links.items() if value is not None]
    if task == "node" and given:
        raise InputError(f"--{given[0]} is an option of link tasks: omit it, or choose --task link.")
    if task is None and not given and config is not None:
        from fastgtn.config import toml

        return "link" in toml.read(config)
    return task == "link" or bool(given)


def is_link_folder(folder: Path) -> bool:
    """Whether a folder holds a link run, finished or not."""
    from fastgtn.runs.files import read_json

    path = folder / "run.json"
    return path.is_file() and "settings" in read_json(path)


def link_dataset(dataset: str | None, graph: Path | None, *, config: Path | None = None) -> str | None:
    """The graph whose links are predicted: a file, or a name of the data folder; None if a config names it."""
    if graph is None and dataset is None:
        if config is not None:
            return None
        raise InputError("a link task needs a graph: give an archive with --graph, or a name with --dataset.")
    is_file = graph is not None and (graph.exists() or graph.suffix == ".npz" or len(graph.parts) > 1)
    return str(graph.resolve()) if graph is not None and is_file else str(dataset or graph)


def check_model(model: str) -> None:
    """Refuse a mistyped model before torch is imported."""
    from fastgtn.config.tuned_configs import model_values

    model_values(model)


def check_settings(settings: list[str] | None) -> None:
    """Refuse a mistyped key of `--set` before torch is imported."""
    from fastgtn.config import toml

    check_keys(toml.settings(settings or ()))


def check_keys(values: dict[str, Any]) -> None:
    """Refuse a mistyped key of a config before torch is imported."""
    from fastgtn.config import source_index
    from fastgtn.nn.entries import registered

    if not registered():  # where the models are imported, some may have other keys: the config itself checks them
        source_index.check_keys(values)


def check_names(
    config: Path | None, dataset: str | None, graph: Path | None, model: str | None, data_dir: Path | None
) -> None:
    """Refuse a mistyped model, dataset or file before torch is imported."""
    from fastgtn.config import toml
    from fastgtn.data.catalog import locate, refuse_tables

    if model is not None:
        check_model(model)
    if config is not None:
        check_keys(toml.read(config))
    if dataset is not None:
        locate(dataset, data_dir=data_dir)
    if graph is not None:
        refuse_tables(graph)
    if graph is not None and not graph.exists():
        raise InputError(f"no graph archive at {graph}: give a .npz file or a folder of .npy files.")


def choose_config(
    path: Path | None, dataset: str | None, model: str | None, extra: dict[str, Any], settings: list[str]
) -> Config:
    """The config of a command: a file or a tuned config, overridden by the options and then by `--set`."""
    from fastgtn.config import Config, is_path, read_values, toml
    from fastgtn.config.tuned_configs import model_values, recipe
    from fastgtn.data.catalog import BUILT_IN

    if dataset is not None and is_path(dataset):
        dataset = str(Path(dataset).resolve())  # the run must find its graph from any working directory
    words: dict[str, Any] = {} if dataset is None else {"dataset": dataset}
    if path is not None:
        return Config.of(read_values(path), words, model_values(model) if model else {}, extra, toml.settings(settings))
    named = model_values(model or "fast_gtn")
    base = recipe(model or "fast_gtn", dataset or BUILT_IN)
    return Config.of(base, {"dataset": dataset or BUILT_IN}, named, extra, toml.settings(settings))


def is_link_run(run: Path) -> bool:
    """Whether a run folder holds a link model, decided by its files before anything heavy is imported."""
    return (run / "link.json").is_file() or any(run.glob("seed-*/link.json"))
