"""What other people would use: thin models on PyG's convolutions, behind the same door as GTN and FastGTN."""

from fastgtn.models.baselines.mlp import MLP

__all__ = ["MLP"]
