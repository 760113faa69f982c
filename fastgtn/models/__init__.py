"""What is learned: GTN, FastGTN, their inputs and their head."""

from fastgtn.models.backbone import Backbone
from fastgtn.models.classifier import NodeClassifier
from fastgtn.models.fast_gtn import FastGTN
from fastgtn.models.features import Features
from fastgtn.models.filters import HopFilters
from fastgtn.models.gtn import GTN
from fastgtn.models.meta_path_model import MetaPathModel
from fastgtn.models.non_local import NON_LOCAL, NonLocalOptions

__all__ = [
    "GTN", "NON_LOCAL", "Backbone", "FastGTN", "Features", "HopFilters", "MetaPathModel", "NodeClassifier",
    "NonLocalOptions",
]  # fmt: skip
