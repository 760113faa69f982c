"""Simple and known link predictors, to compare with."""

from collections.abc import Callable

from fastgtn.links.rivals.counting import adamic_adar, common_neighbors, popularity
from fastgtn.links.rivals.embeddings import bpr, light_gcn
from fastgtn.links.rivals.knowledge import complex_kge, dist_mult, rotat_e, trans_e
from fastgtn.links.rivals.scorer import Scorer
from fastgtn.links.task import LinkTask

RIVALS: dict[str, tuple[str, Callable[[LinkTask, int], Scorer]]] = {
    "popularity": ("Popularity", popularity),
    "common_neighbors": ("Common neighbours", common_neighbors),
    "adamic_adar": ("Adamic–Adar", adamic_adar),
    "bpr": ("Matrix factorisation (BPR)", bpr),
    "light_gcn": ("LightGCN", light_gcn),
    "trans_e": ("TransE", trans_e),
    "dist_mult": ("DistMult", dist_mult),
    "complex": ("ComplEx", complex_kge),
    "rotat_e": ("RotatE", rotat_e),
}

__all__ = ["RIVALS", "Scorer"]
