"""The numbers of a run: of each seed, and summarised over all seeds."""

import importlib.metadata
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch_geometric.data import HeteroData

from fastgtn.config import Config, is_path
from fastgtn.training.fit import Trained
from fastgtn.training.memory import MemoryPlan
from fastgtn.training.propagation import Propagation

RUN_KEYS = (
    *("seed", "epoch", "val", "test", "seconds", "peak_memory_mb", "speed", "propagation"),
    *("selected_by", "balance", "majority", "decision", "largest", "temperature"),
    *("val_before_label_shift", "test_before_label_shift"),
)
PACKAGES = ("fastgtn", "torch", "torch_geometric", "numba", "numpy")


class SeedFacts:
    """The numbers of one seed, read from the content of its `result.json`."""

    facts: dict[str, Any]

    @property
    def seed(self) -> int:
        return int(self.facts["seed"])

    @property
    def epoch(self) -> int:
        """The chosen epoch."""
        return int(self.facts["epoch"])

    @property
    def val(self) -> dict[str, float]:
        """Scores of the validation split, as fractions."""
        return dict(self.facts["val"])

    @property
    def test(self) -> dict[str, float]:
        """Scores of the test split, as fractions."""
        return dict(self.facts["test"])

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        return {"val": self.val, "test": self.test}

    @property
    def seconds(self) -> float:
        return float(self.facts["seconds"])

    @property
    def peak_memory_mb(self) -> float:
        return float(self.facts["peak_memory_mb"])

    @property
    def speed(self) -> dict[str, float]:
        """Targets per second, and the shares of sampling, gathering and computing."""
        return dict(self.facts.get("speed", {}))

    @property
    def propagation(self) -> Propagation | None:
        """For GTN and FastGTN: whether logits were computed over edges or from path tables, and why."""
        stored = self.facts.get("propagation")
        return None if stored is None else Propagation(**stored)


def seed_facts(trained: Trained, record: dict[str, Any]) -> dict[str, Any]:
    """What `result.json` holds of one seed."""
    propagation = trained.propagation
    return {
        "seed": trained.config.fit.seed,
        "epoch": trained.epoch,
        "val": trained.val,
        "test": trained.test,
        "seconds": round(trained.seconds, 3),
        "peak_memory_mb": round(trained.peak_memory_mb, 1),
        "speed": trained.speed,
        **({} if propagation is None else {"propagation": propagation.to_json()}),
        **trained.facts,
        "model": trained.config.model.label,
        **record,
    }


def summary(
    config: Config, runs: list[dict[str, Any]], folder: Path, plan: MemoryPlan, *, dataset: str
) -> dict[str, Any]:
    """All runs and, for each metric, their mean and sample standard deviation (n − 1; 0 for one run)."""
    return {
        "dataset": dataset,
        "model": config.model.label,
        "runs": runs,
        "val": mean_and_std([run["val"] for run in runs]),
        "test": mean_and_std([run["test"] for run in runs]),
        "memory_plan": plan.to_json(),
        "out": str(folder),
    }


def mean_and_std(scores: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Mean and sample standard deviation of each metric; the deviation of one run is 0."""
    result = {}
    for name in scores[0]:
        values = [score[name] for score in scores]
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        result[name] = {"mean": statistics.fmean(values), "std": deviation}
    return result


def in_summary(facts: dict[str, Any]) -> dict[str, Any]:
    """What the summary of a run repeats of one seed."""
    return {key: facts[key] for key in RUN_KEYS if key in facts}


def name_of(config: Config, graph: HeteroData | None = None) -> str:
    """The name of the dataset; of one that was given by its path, the name of the graph, else of the file."""
    if not is_path(config.dataset):
        return config.dataset
    name = "" if graph is None else str(getattr(graph, "name", ""))
    return Path(config.dataset).stem if name in ("", "graph") else name


def versions() -> dict[str, str]:
    """The packages that decide the numbers."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in PACKAGES}
