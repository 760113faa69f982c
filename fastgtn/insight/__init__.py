"""What was learned: meta-paths, their weight, whether they matter."""

from fastgtn.insight.faithfulness import Faithfulness, PathEffect, faithfulness
from fastgtn.insight.ranking import RankedPath, Ranking, rank_metapaths
from fastgtn.insight.reasons import Reason, Reasons, explain_node
from fastgtn.insight.stability import Stability, StablePath, stability

__all__ = [
    "Faithfulness", "PathEffect", "RankedPath", "Ranking", "Reason", "Reasons", "Stability", "StablePath",
    "explain_node", "faithfulness", "rank_metapaths", "stability",
]  # fmt: skip
