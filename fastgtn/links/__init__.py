"""Link prediction: which edges are missing or come next, and along which meta-paths."""

from fastgtn.links.fit import LinkPath, LinkResult, fit_links
from fastgtn.links.folder import load_links
from fastgtn.links.joined.screen import LinkScreening, screen_links
from fastgtn.links.learned.result import LearnedLinks, fit_encoders
from fastgtn.links.task import LinkTask, Pairs

__all__ = [
    "LearnedLinks",
    "LinkPath",
    "LinkResult",
    "LinkScreening",
    "LinkTask",
    "Pairs",
    "fit_encoders",
    "fit_links",
    "load_links",
    "screen_links",
]
