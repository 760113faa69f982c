"""Scores of node predictions, as fractions. To add a metric, add a file with its entry and import it here."""

from fastgtn.data.metrics import classes, numbers, probabilities, ranking
from fastgtn.data.metrics.metric import (
    Answers,
    Kind,
    Metric,
    Rows,
    entitle,
    headline,
    is_fraction,
    is_higher_better,
    main_metric,
    metrics_of,
    named,
    register,
    registered,
    shown,
    title_of,
)
from fastgtn.data.metrics.tally import Tally

__all__ = [
    "Answers",
    "Kind",
    "Metric",
    "Rows",
    "Tally",
    "classes",
    "entitle",
    "headline",
    "is_fraction",
    "is_higher_better",
    "main_metric",
    "metrics_of",
    "named",
    "numbers",
    "probabilities",
    "ranking",
    "register",
    "registered",
    "shown",
    "title_of",
]
