"""The models: GTN, FastGTN, the baselines, their inputs and their head."""

from typing import TYPE_CHECKING

from fastgtn.lazy import lazy_names

if TYPE_CHECKING:
    from fastgtn.nn.backbone import Backbone
    from fastgtn.nn.classifier import NodeClassifier
    from fastgtn.nn.fast_gtn import FastGTN
    from fastgtn.nn.filters import HopFilters
    from fastgtn.nn.gtn import GTN
    from fastgtn.nn.hetero.conv import FastGTNConv, GTNConv, HeteroFastGTN, HeteroGTN
    from fastgtn.nn.inputs.features import Features
    from fastgtn.nn.meta_path.model import MetaPathModel
    from fastgtn.nn.non_local import NON_LOCAL, NonLocalOptions

__all__ = [
    "GTN",
    "NON_LOCAL",
    "Backbone",
    "FastGTN",
    "FastGTNConv",
    "Features",
    "GTNConv",
    "HeteroFastGTN",
    "HeteroGTN",
    "HopFilters",
    "MetaPathModel",
    "NodeClassifier",
    "NonLocalOptions",
]

__getattr__, __dir__ = lazy_names(__name__, __file__)
