"""How much memory a pass takes, by the sizes of a graph and of a model."""

from fastgtn.models import NodeClassifier
from fastgtn.models.features import Features, SparseMatrix
from fastgtn.relations import RelationStack

FLOAT = 4  # bytes
PASS_BUFFERS = 5  # tables of all nodes that a pass without gradients holds at its peak


def row_floats(model: NodeClassifier) -> int:
    """Numbers per node in one table of hidden features."""
    channels = int(getattr(model.backbone, "num_channels", 1))
    return channels * model.backbone.out_features


def pass_bytes(stack: RelationStack, model: NodeClassifier) -> float:
    """The peak of one pass over every row of a graph, without gradients and without the features themselves."""
    return float(stack.num_nodes * row_floats(model) * FLOAT * PASS_BUFFERS)


def feature_bytes(features: Features) -> float:
    """All features in memory as numbers of single precision."""
    total = 0.0
    for block in features.blocks:
        if isinstance(block.matrix, SparseMatrix):
            total += 3 * FLOAT * block.matrix.values.numel()
        elif block.matrix is not None:
            total += FLOAT * block.matrix.numel()
    return total
