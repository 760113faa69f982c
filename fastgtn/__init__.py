"""fastgtn: learn which meta-paths matter on heterogeneous graphs."""

from fastgtn.errors import InputError
from fastgtn.models import GTN, FastGTN, Features, NodeClassifier, NonLocalOptions
from fastgtn.relations import Relation, RelationStack

__all__ = ["GTN", "FastGTN", "Features", "InputError", "NodeClassifier", "NonLocalOptions", "Relation", "RelationStack"]
