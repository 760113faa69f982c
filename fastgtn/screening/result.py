"""The result of a screening: a table of paths, and the paths that were not tested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastgtn.relations.paths.metapath import MetaPath
from fastgtn.relations.schema import Relation

SIGNIFICANT = 0.05
ITSELF = "itself"


@dataclass(frozen=True)
class ScreenedPath:
    """One meta-path and how well it predicts the training labels.

    Args:
        name: The short name, such as "APC"; "itself" for a node's own features.
        r_squared: Share of the labels' variance that its features explain, each node left out of its own fit.
        p_value: How often permuted labels reach this on any path (family-wise).
        added: What it adds to the R² of the paths chosen before it; zero where it was not chosen.
        chosen: Its place in the forward selection, from 1; None where it was not chosen.
    """

    name: str
    path: MetaPath
    r_squared: float
    p_value: float
    added: float = 0.0
    chosen: int | None = None

    @property
    def is_significant(self) -> bool:
        return self.p_value <= SIGNIFICANT

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.name,
            "types": list(self.path.types),
            "relations": [list(relation) for relation in self.path.relations],
            "r_squared": self.r_squared,
            "p_value": self.p_value,
            "added": self.added,
            "chosen": self.chosen,
        }

    @staticmethod
    def from_dict(values: dict[str, Any]) -> ScreenedPath:
        relations = tuple(Relation(*relation) for relation in values["relations"])
        path = MetaPath(relations, tuple(values["types"]))
        numbers = {key: values[key] for key in ("r_squared", "p_value", "added", "chosen")}
        return ScreenedPath(values["path"], path, **numbers)


@dataclass(frozen=True)
class Screening:
    """All paths that were tested, best first; iterate over it for the paths.

    Args:
        joint: R² of all chosen paths together.
        num_nodes: Training nodes that were used.
        num_train: Training nodes that there are.
        longest: The requested length of the longest path.
        unseen: What was not tested, in sentences; empty if everything was.
        sketched: Columns that wide features were mixed down to; zero where none were.
        first_pass: Paths that a first pass looked at, to choose which of them to test; zero where all were tested.
    """

    target: str
    paths: tuple[ScreenedPath, ...]
    joint: float
    num_nodes: int
    num_train: int
    longest: int
    permutations: int
    seconds: float
    unseen: tuple[str, ...] = ()
    sketched: int = 0
    first_pass: int = 0

    def __iter__(self) -> Iterator[ScreenedPath]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, name: str) -> ScreenedPath:
        """A path by its name."""
        for path in self.paths:
            if path.name == name:
                return path
        raise KeyError(name)

    @property
    def own_is_significant(self) -> bool:
        """Whether the features of a node predict its label better than chance."""
        return any(path.is_significant for path in self.paths if not path.path.relations)

    @property
    def chosen(self) -> tuple[ScreenedPath, ...]:
        """The paths that forward selection took, in its order."""
        return tuple(sorted((p for p in self.paths if p.chosen is not None), key=lambda p: p.chosen or 0))

    @property
    def num_significant(self) -> int:
        return sum(path.is_significant for path in self.paths)

    @property
    def first_look(self) -> str:
        """How the tested paths were chosen, in words; empty where all paths were tested."""
        if not self.first_pass:
            return ""
        return f"a first pass over {self.first_pass:,} longer paths chose which of them were tested"

    @property
    def verdict(self) -> str:
        """What was found, in a sentence."""
        if not self.num_significant:
            return (
                f"None of {len(self.paths):,} meta-paths predicts the training labels better than chance "
                f"(family-wise p > {SIGNIFICANT})."
            )
        names = ", ".join(path.name for path in self.chosen)
        which = f"together {names} explain" if len(self.chosen) > 1 else f"{names} explains"
        return (
            f"{self.num_significant:,} of {len(self.paths):,} meta-paths predict the training labels better than "
            f"chance; {which} {100 * self.joint:.0f} % of their variance."
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "verdict": self.verdict,
            "chosen": [path.name for path in self.chosen],
            "joint_r_squared": self.joint,
            "paths": [path.to_dict() for path in self.paths],
            "nodes": self.num_nodes,
            "train_nodes": self.num_train,
            "longest": self.longest,
            "permutations": self.permutations,
            "sketched_to": self.sketched,
            "first_pass": self.first_pass,
            "not_looked_at": list(self.unseen),
            "seconds": self.seconds,
        }

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Screening:
        return Screening(
            target=values["target"],
            paths=tuple(ScreenedPath.from_dict(path) for path in values["paths"]),
            joint=values["joint_r_squared"],
            num_nodes=values["nodes"],
            num_train=values["train_nodes"],
            longest=values["longest"],
            permutations=values["permutations"],
            seconds=values["seconds"],
            unseen=tuple(values["not_looked_at"]),
            sketched=values["sketched_to"],
            first_pass=values.get("first_pass", 0),  # runs of earlier versions had none
        )
