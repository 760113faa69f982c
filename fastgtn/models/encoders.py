"""The first linear map of a model, whatever the nodes bring along."""

import math
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from fastgtn.errors import InputError
from fastgtn.models.dropout import drop
from fastgtn.models.features import FeatureBlock, Features, SparseMatrix

Encoder = Literal["linear", "relu"]

# without gradients, features are fetched and multiplied so many rows at a time: they may be mapped from a file
# that is larger than the memory
ROWS_AT_ONCE = 1 << 16


class InputLinear(nn.Module):
    r"""The product :math:`X [W_1 | … | W_C]`, computed once for all channels.

    Nodes of a type without features have one learned row each: the product with a one-hot X.

    Args:
        widths: Features per block (``features.widths``): ``{"shared": F}`` for one matrix over all nodes.
        embedded: Blocks without features and their node counts (``features.embedded``).
        dropout: Share of feature entries that are dropped in training; sparse features stay sparse.
        encoder: Whether a ReLU follows, and dropout again before the next map. If not, this and that are one map.
    """

    def __init__(
        self, widths: dict[str, int], embedded: dict[str, int], out_features: int, *, dropout: float = 0.0,
        encoder: Encoder = "linear",
    ) -> None:  # fmt: skip
        super().__init__()
        self.dropout, self.encoder = dropout, encoder
        # Module names may not hold every character that a node type may: number the blocks instead.
        self.keys = (*widths, *embedded)
        self.widths, self.embedded = dict(widths), dict(embedded)
        self.out_features = out_features
        self.weights = nn.ParameterList(torch.empty(n, out_features) for n in (*widths.values(), *embedded.values()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for key, weight in zip(self.keys, self.weights, strict=True):
            if key in self.embedded:
                nn.init.normal_(weight, std=1 / math.sqrt(weight.size(1)))
            elif weight.numel():
                nn.init.xavier_uniform_(weight)

    def forward(self, features: Features) -> Tensor:
        z = self._map(features)
        return z if self.encoder == "linear" else drop(torch.relu(z), self.dropout, self.training)

    def _map(self, features: Features) -> Tensor:
        self._require(features)
        if torch.is_grad_enabled() or features.num_rows <= ROWS_AT_ONCE:
            return self._products(features)
        out = self.weights[0].new_empty(features.num_rows, self.out_features)
        for nodes in torch.arange(features.num_rows).split(ROWS_AT_ONCE):
            out[nodes[0] : nodes[-1] + 1] = self._products(features.select(nodes))
        return out

    def _products(self, features: Features) -> Tensor:
        weights = dict(zip(self.keys, self.weights, strict=True))
        products = [self._product(block, weights[block.key]) for block in features.blocks]
        stacked = products[0] if len(products) == 1 else torch.cat(products)
        return stacked if features.order is None else stacked[features.order]

    def _product(self, block: FeatureBlock, weight: Tensor) -> Tensor:
        matrix = block.matrix
        if matrix is None:
            return weight if block.nodes is None else weight[block.nodes]
        if isinstance(matrix, Tensor):
            matrix = matrix.to(weight.dtype)  # stored in half or in double, computed as the model is
        if self.training and self.dropout:
            p = self.dropout
            matrix = matrix.dropout(p) if isinstance(matrix, SparseMatrix) else drop(matrix, p)
        return matrix @ weight

    def _require(self, features: Features) -> None:
        if (self.widths, self.embedded) != (features.widths, features.embedded):
            raise InputError(
                f"the model was built for features ({_listed(self.widths, self.embedded)}), but got "
                f"({_listed(features.widths, features.embedded)}). Both graphs must have the same feature columns."
            )


def _listed(widths: Mapping[str, int], embedded: Mapping[str, int]) -> str:
    words = [f"{key} {count}" for key, count in widths.items()]
    return ", ".join([*words, *(f"{key} {count} embeddings" for key, count in embedded.items())])
