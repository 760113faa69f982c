"""What was learned: meta-paths, their weight, whether they matter."""

from fastgtn.insight.ranking import RankedPath, Ranking, rank_metapaths

__all__ = ["RankedPath", "Ranking", "rank_metapaths"]
