"""The baselines: thin models on PyG's convolutions, with the same interface as GTN and FastGTN."""

from typing import TYPE_CHECKING

from fastgtn.lazy import lazy_names

if TYPE_CHECKING:
    from fastgtn.nn.baselines.gat import GAT
    from fastgtn.nn.baselines.gcn import GCN
    from fastgtn.nn.baselines.gcnii import GCNII
    from fastgtn.nn.baselines.han import HAN
    from fastgtn.nn.baselines.hgt import HGT
    from fastgtn.nn.baselines.jk_net import JKNet
    from fastgtn.nn.baselines.mixhop import MixHop
    from fastgtn.nn.baselines.mlp import MLP
    from fastgtn.nn.baselines.node2vec import Node2Vec, WalkOptions
    from fastgtn.nn.baselines.rgcn import RGCN

__all__ = ["GAT", "GCN", "GCNII", "HAN", "HGT", "MLP", "RGCN", "JKNet", "MixHop", "Node2Vec", "WalkOptions"]

__getattr__, __dir__ = lazy_names(__name__, __file__)
