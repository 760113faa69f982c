"""Shell completion of models, datasets, config keys and run folders. Nothing here may import torch."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from fastgtn.errors import InputError

RESULT = "result.json"  # every run folder, and the folder of every seed, has one


def models(incomplete: str) -> list[str]:
    """The models by name."""
    from fastgtn.config.tuned_configs import models as known_models

    return _starting(known_models(), incomplete)


def several_models(incomplete: str) -> list[str]:
    """Complete the last of several comma-separated models."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in models(last)]


def datasets(incomplete: str) -> list[str]:
    """The graphs of the data folder, and the built-in one."""
    from fastgtn.data.catalog import BUILT_IN, available

    try:
        return _starting([BUILT_IN, *available()], incomplete)
    except InputError:  # FASTGTN_DATA is not a folder; the command itself reports it
        return _starting([BUILT_IN], incomplete)


def several_datasets(incomplete: str) -> list[str]:
    """Complete the last of several comma-separated datasets."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in datasets(last)]


def devices(incomplete: str) -> list[str]:
    """Where a model can be trained."""
    return _starting(("auto", "cpu", "cuda", "mps"), incomplete)


def config_settings(incomplete: str) -> list[str]:
    """Keys of the config, ready for a value."""
    from fastgtn.config.source_index import config_keys

    return _starting((f"{key}=" for key in config_keys()), incomplete)


def run_folders(incomplete: str) -> Iterator[str]:
    """Folders with a finished run, below the path typed so far or below ``runs``."""
    typed = Path(incomplete)
    parent = typed if incomplete.endswith("/") else typed.parent
    for folder in (parent, Path("runs")) if not incomplete else (parent,):
        found = sorted(path.parent for path in folder.glob(f"*/{RESULT}")) if folder.is_dir() else []
        yield from _starting(map(str, found), incomplete)


def _starting(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
