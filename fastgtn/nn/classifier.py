"""A model that can be trained, and the one with a head that computes class scores."""

import torch
from torch import Tensor, nn

from fastgtn.errors import InputError
from fastgtn.nn.backbone import Backbone, PlannedGraph
from fastgtn.nn.inputs.checks import Input
from fastgtn.nn.row_linear import RowLinear
from fastgtn.relations import RelationStack
from fastgtn.relations.kernels.dropout import drop


class Predictor(nn.Module):
    """A backbone, and something that turns its representations into scores. Training needs nothing else of a model.

    Attributes:
        backbone: Computes representations of nodes.
    """

    backbone: Backbone


class NodeClassifier(Predictor):
    """Computes class scores (logits) of nodes, for one label or several.

    Args:
        backbone: The model that computes representations of nodes.
        num_classes: Number of classes or labels.
        dropout: Dropout before the last linear map; by default that of the model.
        direct: Whether the representations are the class scores already. The last map then only adds a bias.
    """

    def __init__(
        self, backbone: Backbone, num_classes: int, *, dropout: float | None = None, direct: bool = False
    ) -> None:
        super().__init__()
        if num_classes < 1:
            raise InputError(f"num_classes must be at least 1, but got {num_classes}.")
        self.backbone = backbone
        self.dropout = backbone.head_dropout if dropout is None else dropout
        self.head = RowLinear(backbone.out_features, num_classes)
        if direct:
            self._fix_head(num_classes)

    def _fix_head(self, num_classes: int) -> None:
        """Fix the head at the identity. Explanations read its weights like those of any other head."""
        if self.backbone.out_features != num_classes:
            raise InputError(
                f"the model computes {self.backbone.out_features} numbers per node, which cannot be the scores of "
                f'{num_classes} classes: with model.encoder = "scores", model.aggregate must not be "none".'
            )
        self.dropout = 0.0
        with torch.no_grad():
            self.head.weight.copy_(torch.eye(num_classes))
            self.head.bias.zero_()
        self.head.weight.requires_grad_(False)

    def forward(self, x: Input, graph: RelationStack | PlannedGraph) -> Tensor:
        """Logits [N, num_classes] of all nodes of a stack, or of the targets of a plan."""
        return self.classify(self.backbone(x, graph))

    def classify(self, z: Tensor) -> Tensor:
        """Logits of representations from the backbone."""
        logits: Tensor = self.head(drop(z, self.dropout, self.training))
        return logits
