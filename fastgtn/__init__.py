"""fastgtn: learn which meta-paths matter on heterogeneous graphs."""

from fastgtn.data import load
from fastgtn.errors import InputError
from fastgtn.insight import rank_metapaths
from fastgtn.models import GTN, FastGTN, Features, NodeClassifier, NonLocalOptions
from fastgtn.relations import Relation, RelationStack
from fastgtn.training import Config, fit, load_run

__all__ = [
    "GTN",
    "Config",
    "FastGTN",
    "Features",
    "InputError",
    "NodeClassifier",
    "NonLocalOptions",
    "Relation",
    "RelationStack",
    "fit",
    "load",
    "load_run",
    "rank_metapaths",
]
