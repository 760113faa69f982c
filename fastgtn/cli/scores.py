"""Scores of finished runs as lines for people."""

from __future__ import annotations

from typing import Any

from fastgtn.cli.output import say

MOST_CLASSES = 5  # with more classes, the line of frequencies shows the commonest two and the rarest


def say_classes(runs: list[Any]) -> None:
    """The class balance and what guessing would score, the threshold for an aim, and the scale of numbers."""
    first = runs[0]
    if "majority" in first:
        say("balance", balance_line(first["balance"], first["majority"], "val"))
    tests = [run["test"]["r2"] for run in runs if "r2" in run["test"]]
    if tests and sum(tests) < 0:
        say("note", "R² is below 0: on the test nodes, always predicting their mean would be better than this model")
    if first.get("largest"):
        from fastgtn.data.number_unit import plain_number  # lists and help are printed without torch

        limit = ", ".join(plain_number(number) for number in first["largest"])
        say("scale", f"logarithmic: meta-paths multiply the predicted number, which is at most {limit}")
    decision = first.get("decision")
    if decision:
        words = "" if decision["is_reached"] else " (the aim is not reached; this comes closest)"
        seed = f" (seed {first['seed']})" if len(runs) > 1 else ""
        scores = [
            f"precision {100 * scores['precision']:.1f} and recall {100 * scores['recall']:.1f} on {split}"
            for split, scores in (("val", decision), ("test", first["test"]))
            if "precision" in scores
        ]
        say(
            "decide",
            f"{decision['class_name']} if its probability is at least {decision['threshold']:.4f}, "
            f"for {decision['aim']}{words}: {', '.join(scores)}{seed}",
        )


def balance_line(balance: dict[str, float], majority: float, split: str) -> str:
    """The commonest and the rarest classes of the training nodes, and the score of guessing without a model."""
    order = sorted(balance, key=lambda name: -balance[name])
    listed = order if len(order) <= MOST_CLASSES else [*order[:2], "…", order[-1]]
    shares = [f"{name} {100 * balance[name]:.1f} %" if name in balance else name for name in listed]
    guess = f'always guessing "{order[0]}" scores micro-F1 {100 * majority:.2f} on {split} (majority)'
    return f"{' · '.join(shares)} of the training nodes · {guess}"


def before_shift(runs: list[Any], split: str) -> str:
    """The main score of a split before class frequencies were corrected; epochs were chosen by that of validation."""
    from fastgtn.data.metrics import main_metric, shown, title_of

    key = f"{split}_before_label_shift"
    first = runs[0][key]
    main = main_metric(first)
    name = runs[0]["selected_by"] if runs[0]["selected_by"] in first or main is None else main.name
    mean = sum(run[key][name] for run in runs) / len(runs)
    return f"{title_of(name)} {shown(name, mean)}"


def points(spread: dict[str, dict[str, float]], runs: list[Any]) -> str:
    """Metrics for people: in points or in the user's unit, with the spread over several runs.

    The metric that chose the epochs comes first.
    """
    from fastgtn.data.metrics import headline, shown, title_of

    parts = []
    first = runs[0].get("selected_by") if runs else None
    for name in headline(spread, first=first):
        deviation = f" ± {shown(name, spread[name]['std'])}" if len(runs) > 1 else ""
        parts.append(f"{title_of(name)} {shown(name, spread[name]['mean'])}{deviation}")
    return " · ".join(parts) or "no test nodes"
