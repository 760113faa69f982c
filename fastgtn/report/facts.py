"""The facts at the head of a report: graph, task, split, model and training, in words."""

from collections.abc import Sequence

from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask
from fastgtn.data.majority import majority_score
from fastgtn.data.metrics import shown, title_of
from fastgtn.report.judged import open_split
from fastgtn.report.path_tables import schema_table
from fastgtn.runs.result import Result

FEW_CLASSES = 12  # whose shares are listed


def run_facts(run: Result, seeds: Sequence[Result], graph: HeteroData) -> tuple[tuple[str, str], ...]:
    """Names and words, in the order of the page."""
    task, stack = run.task, run.inputs.stack
    splits = {"train": len(task.train), "validation": len(task.val), "test": len(task.test_nodes)}
    types = len(graph.node_types)
    of_types = f" of {types} types" if types > 1 else ""
    edges = sum(schema_table(graph, stack.relations).edges.values())
    seconds = sum(other.seconds for other in seeds)
    epochs = ", ".join(str(other.epoch) for other in seeds)
    return (
        ("Graph", f"{stack.num_nodes:,} nodes{of_types} · {edges:,} edges"),
        ("Task", task_words(task)),
        *balance_words(task),
        *decision_words(run),
        ("Split", " · ".join(f"{count:,} {name}" for name, count in splits.items()) + " nodes"),
        ("Model", run.config.model.summary),
        ("Training", f"{seconds:.1f} s · chosen epoch{'s' if len(seeds) > 1 else ''} {epochs}"),
    )


def balance_words(task: NodeTask) -> list[tuple[str, str]]:
    """The shares of the classes, and what always guessing the commonest one scores; for one class per node."""
    if task.kind != "single" or task.num_classes > FEW_CLASSES:
        return []
    shares = " · ".join(f"{n} {100 * s:.1f} %" for n, s in zip(task.class_names, task.balance, strict=True))
    split, _ = open_split(task)
    return [
        (
            "Classes",
            f"{shares} of the training nodes; always the commonest: {100 * majority_score(task, split):.2f} "
            f"micro-F1 on {split}",
        )
    ]


def decision_words(run: Result) -> list[tuple[str, str]]:
    """The stored threshold with what it reaches, and the validation score before label shift."""
    found, decision = [], run.facts.get("decision")
    if decision is not None:
        reached = [
            f"precision {100 * scores['precision']:.1f} and recall {100 * scores['recall']:.1f} on {split}"
            for split, scores in (("validation", decision), ("test", run.test))
            if "precision" in scores
        ]
        words = f"{decision['class_name']} if its probability is at least {decision['threshold']:.4f}"
        found.append(("Decision", f"{words}, for {decision['aim']}: {', '.join(reached)} (seed {run.seed})"))
    before = run.facts.get("val_before_label_shift", {}).get(run.chosen_by)
    if before is not None:
        words = f"all scores are after it; validation {title_of(run.chosen_by)} before it"
        found.append(("Label shift", f"{words}: {shown(run.chosen_by, before)} (seed {run.seed})"))
    return found


def task_words(task: NodeTask) -> str:
    """What is predicted, in a few words."""
    if task.kind == "number":
        scale = "numbers" if task.largest is None else "numbers, learned on a logarithmic scale"
        return f"{', '.join(task.class_names)} of {task.target} ({scale})"
    return f"{task.num_classes} classes of {task.target}{' (several per node)' if task.kind == 'multi' else ''}"
