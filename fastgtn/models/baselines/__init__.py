"""What other people would use: thin models on PyG's convolutions, behind the same door as GTN and FastGTN."""

from fastgtn.models.baselines.han import HAN
from fastgtn.models.baselines.homogeneous import GAT, GCN, GCNII, JKNet, MixHop
from fastgtn.models.baselines.mlp import MLP
from fastgtn.models.baselines.node2vec import Node2Vec, WalkOptions
from fastgtn.models.baselines.relational import HGT, RGCN

__all__ = ["GAT", "GCN", "GCNII", "HAN", "HGT", "MLP", "RGCN", "JKNet", "MixHop", "Node2Vec", "WalkOptions"]
