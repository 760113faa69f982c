"""A question about all meta-paths of a run: what to rank, and how reliable the ranking is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastgtn.cli.explain.tables import show
from fastgtn.cli.output import emit_json, say, stderr, stdout
from fastgtn.errors import InputError, nearest

if TYPE_CHECKING:
    from torch import Tensor

    from fastgtn.data import NodeTask
    from fastgtn.explain import Faithfulness, Ranking, Stability
    from fastgtn.relations import Relation
    from fastgtn.runs import Result

SPARE_PATHS = 200  # when runs are compared, rank this many additional paths, so that few weights count as zero


class Format(StrEnum):
    """The export formats."""

    pyg = "pyg"
    cypher = "cypher"
    sql = "sql"


@dataclass(frozen=True, kw_only=True)
class Question:
    """Which paths to rank, over which nodes, and what to check about the ranking.

    Args:
        by_share: Rank by the share of the learned graph instead of the contribution.
        control: Train the same model with uniform filters first, for the verdict.
        stability: Compare all seeds of the run.
        faithfulness: Score the validation nodes without each path, and with only that path.
    """

    top: int
    between_targets: bool
    channel: int | None
    layer: int
    split: str | None
    of_class: str | None
    by_share: bool
    control: bool
    stability: bool
    faithfulness: bool


def answer_question(trained: Result, run: Path, question: Question, *, export: Format | None, as_json: bool) -> None:
    """Print the ranking with its checks, or the paths in the syntax of another program."""
    options = _ranking_options(trained, question)
    if question.control:
        with stderr.status("training the control with uniform filters"):
            trained.control()
    ranking = trained.metapaths(question.top, by="share" if question.by_share else "contribution", **options)
    if question.by_share:
        ranking = replace(ranking, learned=trained.learned)
    stable = agreement(trained, run, question.top, options) if question.stability else None
    matters = path_effects(trained, ranking) if question.faithfulness else None
    text = None if export is None else exported(ranking, export, trained.inputs.stack.relations)
    if as_json:
        answer = {"run": str(trained.folder), "dataset": trained.config.dataset, **ranking.to_dict()}
        checked = {"stability": stable, "faithfulness": matters}
        answer |= {name: part.to_dict() for name, part in checked.items() if part is not None}
        emit_json(answer | ({} if text is None else {"export": text}))
    elif text is not None:
        stdout.print(text, markup=False, end="")
    else:
        show(ranking, stable, matters)
        _say_next(run, ranking)


def _ranking_options(trained: Result, question: Question) -> dict[str, Any]:
    every_node = question.split is None and question.of_class is None
    return {
        "nodes": None if every_node else choose_nodes(trained.task, question.split, question.of_class),
        "between_targets": question.between_targets,
        "channel": question.channel,
        "layer": question.layer,
    }


def _say_next(run: Path, ranking: Ranking) -> None:
    """Suggest the next step: the control if there is none, else the reasons for one node."""
    learned = ranking.learned
    if learned is not None and learned.control is None and not learned.found_nothing:
        say("next", f"fastgtn explain {run} --control    what the choice of paths is worth")
    else:
        say("next", f"fastgtn explain {run} --node ID    why one node got its prediction")


def agreement(trained: Result, run: Path, top: int, options: dict[str, Any]) -> Stability:
    """How far the seeds of a run agree about their paths."""
    from fastgtn.explain import stability
    from fastgtn.runs.load import seeds_of

    seeds = seeds_of(trained, finished_seeds(run), run)
    return stability([one.metapaths(top + SPARE_PATHS, by="share", **options) for one in seeds], top=top)


def path_effects(trained: Result, ranking: Ranking) -> Faithfulness:
    """The validation score without each path, and with only that path."""
    from fastgtn.explain import faithfulness

    own, (seen, _) = trained.own, trained.own.seen
    task = own.seen_task(trained.task)
    return faithfulness(own.model, seen.stack, seen.features, task, ranking, metric=trained.chosen_by)


def choose_nodes(task: NodeTask, split: str | None, of_class: str | None) -> Tensor | None:
    """Nodes of a split, of a class, or of both."""
    import torch

    from fastgtn.runs.scoring.evaluate import SPLITS

    if split is not None and split not in SPLITS:
        raise InputError(f'no split "{split}"; {nearest(split, SPLITS)}')
    if of_class is None:
        nodes = {"train": task.train.nodes, "val": task.val.nodes, "test": task.test_nodes}
        return None if split is None else nodes[split]
    if of_class not in task.class_names:
        raise InputError(f'no class "{of_class}"; {nearest(of_class, task.class_names)}')
    if split == "test":
        raise InputError(
            "--class selects nodes by label, and test labels are hidden: use --split train or --split val."
        )
    number = task.class_names.index(of_class)
    splits = [part for name, part in (("train", task.train), ("val", task.val)) if split in (None, name)]
    masks = [part.labels[:, number] > 0 if part.labels.dim() == 2 else part.labels == number for part in splits]
    return torch.cat([part.nodes[mask] for part, mask in zip(splits, masks, strict=True)])


def finished_seeds(run: Path) -> list[int]:
    """The seeds of a run folder."""
    if (run / "model.safetensors").exists():
        raise InputError(
            f"{run} is the folder of one seed: give the folder of the run, {run.parent}, to compare its seeds."
        )
    from fastgtn.runs import records

    return records.finished_seeds(run)


def exported(ranking: Ranking, form: Format, relations: Iterable[Relation]) -> str:
    """The ranked paths in the syntax of another program; a note on stderr lists paths that it cannot express."""
    from fastgtn.explain.export import cypher, is_exportable, pyg_metapaths, pyg_text, sql

    known = tuple(relations)
    usable = [ranked for ranked in ranking if is_exportable(ranked.path)]
    if form is Format.pyg:
        usable = [ranked for ranked in usable if pyg_metapaths([ranked.path])]
    left_out = [ranked.name for ranked in ranking if ranked not in usable]
    if left_out:
        why = (
            "paths of one step are edge types already, and non-local steps have no edge type"
            if form is Format.pyg
            else "no stored edges"
        )
        stderr.print(f"note: these paths are omitted: {', '.join(left_out)} ({why}).", markup=False)
    if form is Format.pyg:
        return pyg_text(ranked.path for ranked in usable)
    write, comment = (cypher, "//") if form is Format.cypher else (sql, "--")
    return "\n".join(f"{comment} {r.rank}. {r.name}, share {r.weight:.4f}\n{write(r.path, known)}" for r in usable)
