"""A model and a head: from features and graph to class scores."""

from torch import Tensor, nn

from fastgtn.errors import InputError
from fastgtn.models.backbone import Backbone, PlannedGraph
from fastgtn.models.dropout import drop
from fastgtn.models.inputs import Input
from fastgtn.relations import RelationStack


class NodeClassifier(nn.Module):
    """Class scores (logits) of nodes, for one label or several: the task decides what they mean.

    Args:
        backbone: The model that makes representations of nodes.
        num_classes: Number of classes or labels.
        dropout: Dropout of the representation before the last linear map.
    """

    def __init__(self, backbone: Backbone, num_classes: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        if num_classes < 1:
            raise InputError(f"num_classes must be at least 1, but got {num_classes}.")
        self.backbone = backbone
        self.dropout = dropout
        self.head = nn.Linear(backbone.out_features, num_classes)

    def forward(self, x: Input, graph: RelationStack | PlannedGraph) -> Tensor:
        """Logits [N, num_classes] of all nodes of a stack, or of the targets of a plan."""
        return self.classify(self.backbone(x, graph))

    def classify(self, z: Tensor) -> Tensor:
        """Logits of representations that the backbone made."""
        logits: Tensor = self.head(drop(z, self.dropout, self.training))
        return logits
