"""fastgtn: learn which meta-paths matter on heterogeneous graphs."""

from typing import TYPE_CHECKING

from fastgtn.lazy import lazy_names

if TYPE_CHECKING:
    from fastgtn.config import Config
    from fastgtn.data import NodeTask, load
    from fastgtn.errors import InputError
    from fastgtn.explain import explain_node, rank_metapaths
    from fastgtn.links import LinkTask, fit_encoders, fit_links, load_links
    from fastgtn.nn import GTN, FastGTN, Features, NodeClassifier, NonLocalOptions
    from fastgtn.relations import LayerSampler, NeighborSampler, Relation, RelationStack
    from fastgtn.report import write_report
    from fastgtn.runs import Result, fit, load_run
    from fastgtn.training import screen_metapaths

__all__ = [
    "GTN",
    "Config",
    "FastGTN",
    "Features",
    "InputError",
    "LayerSampler",
    "LinkTask",
    "NeighborSampler",
    "NodeClassifier",
    "NodeTask",
    "NonLocalOptions",
    "Relation",
    "RelationStack",
    "Result",
    "explain_node",
    "fit",
    "fit_encoders",
    "fit_links",
    "load",
    "load_links",
    "load_run",
    "rank_metapaths",
    "screen_metapaths",
    "write_report",
]

__getattr__, __dir__ = lazy_names(__name__, __file__)
