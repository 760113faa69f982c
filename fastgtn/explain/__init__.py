"""Explain a trained model: its meta-paths, their weights, and whether they matter."""

from fastgtn.explain.faithfulness import Faithfulness, PathEffect, faithfulness
from fastgtn.explain.ranking import RankedPath, Ranking, rank_metapaths
from fastgtn.explain.reasons import Reason, Reasons, explain_node
from fastgtn.explain.stability import Stability, StablePath, stability

__all__ = [
    "Faithfulness",
    "PathEffect",
    "RankedPath",
    "Ranking",
    "Reason",
    "Reasons",
    "Stability",
    "StablePath",
    "explain_node",
    "faithfulness",
    "rank_metapaths",
    "stability",
]
