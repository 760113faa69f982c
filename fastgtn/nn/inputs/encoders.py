"""The first linear map of a model, for all kinds of features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fastgtn.errors import InputError
from fastgtn.nn.inputs.columns import BY_COLUMN, column_scales
from fastgtn.nn.inputs.features import FeatureBlock, Features, SparseMatrix
from fastgtn.nn.inputs.reorder import reordered
from fastgtn.nn.row_linear import row_product
from fastgtn.relations.kernels.dropout import drop

Encoder = Literal["linear", "relu"]
Own = Literal["shared", "separate"]

# without gradients, features are read and multiplied in blocks of this many rows, because they may be mapped
# from a file that is larger than the memory
ROWS_AT_ONCE = 1 << 16
MEAN, DEVIATION = "mean_", "deviation_"  # names of buffers, with the number of a block
UNKNOWN = -1  # the width of features that will be seen in the first pass


class InputLinear(nn.Module):
    r"""The product :math:`X [W_1 | … | W_C]`, computed once for all channels.

    Nodes of a type without features have one learned row each: the product with a one-hot X.

    Args:
        widths: Features per block (``features.widths``): ``{"shared": F}`` for one matrix over all nodes; −1 for a
            width that the first pass finds out.
        embedded: Blocks without features and their node counts (``features.embedded``).
        dropout: Share of feature entries that are dropped in training; sparse features stay sparse.
        encoder: Whether a ReLU follows, and dropout again before the next map. If not, this and that are one map.
    """

    def __init__(
        self,
        widths: dict[str, int],
        embedded: dict[str, int],
        out_features: int,
        *,
        dropout: float = 0.0,
        encoder: Encoder = "linear",
    ) -> None:
        super().__init__()
        self.dropout, self.encoder = dropout, encoder
        # Module names may not hold every character that a node type may: number the blocks instead.
        self.keys = (*widths, *embedded)
        self.widths, self.embedded = dict(widths), dict(embedded)
        self.out_features = out_features
        sizes = (*widths.values(), *embedded.values())
        self.weights = nn.ParameterList(
            nn.UninitializedParameter() if n == UNKNOWN else torch.empty(n, out_features) for n in sizes
        )
        for number in range(len(sizes)):
            self.register_buffer(f"{MEAN}{number}", None)
            self.register_buffer(f"{DEVIATION}{number}", None)
        self.reset_parameters()

    @property
    def embeddings(self) -> list[nn.Parameter]:
        """The learned rows of node types without features."""
        return [weight for key, weight in zip(self.keys, self.weights, strict=True) if key in self.embedded]

    @torch.no_grad()
    def measure(self, features: Features) -> None:
        """Keep means and deviations of the columns of those blocks that are to be scaled by column.

        They are part of the weights, so that another graph is read as the graph of the training was.
        """
        for block in features.blocks:
            if block.scaling in BY_COLUMN and isinstance(block.matrix, Tensor):
                number = self.keys.index(block.key)
                mean, deviation = column_scales(block.matrix, block.scaling)
                setattr(self, f"{MEAN}{number}", mean.to(self.weights[number].dtype))
                setattr(self, f"{DEVIATION}{number}", deviation.to(self.weights[number].dtype))

    def statistics(self, key: str) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of the columns of a block; None where it is read as it is."""
        number = self.keys.index(key)
        mean, deviation = getattr(self, f"{MEAN}{number}"), getattr(self, f"{DEVIATION}{number}")
        return None if mean is None else (mean, deviation)

    def copy_statistics(self, other: InputLinear) -> None:
        """Read columns as another map of the same blocks does."""
        for number in range(len(self.keys)):
            for kind in (MEAN, DEVIATION):
                found = getattr(other, f"{kind}{number}")
                setattr(self, f"{kind}{number}", None if found is None else found.clone())

    def standardized(self, features: Features) -> Features:
        """The same features, with the columns of those blocks standardised."""
        changed = {}
        for block in features.blocks:
            found = self.statistics(block.key)
            if found is not None and isinstance(block.matrix, Tensor):
                mean, deviation = (statistic.to(block.matrix.device) for statistic in found)
                changed[block.key] = (block.matrix.to(mean.dtype) - mean) / deviation
        return features.map(changed) if changed else features

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        for number in range(len(self.keys)):
            for kind in (MEAN, DEVIATION):
                found = state_dict.get(f"{prefix}{kind}{number}")
                setattr(self, f"{kind}{number}", None if found is None else found.clone())
        super()._load_from_state_dict(state_dict, prefix, *others)

    def reset_parameters(self) -> None:
        for key, weight in zip(self.keys, self.weights, strict=True):
            if nn.parameter.is_lazy(weight):
                continue
            if key in self.embedded:
                nn.init.normal_(weight, std=1 / math.sqrt(weight.size(1)))
            elif weight.numel():
                nn.init.xavier_uniform_(weight)

    def forward(self, features: Features) -> Tensor:
        z = self._map(features)
        return z if self.encoder == "linear" else drop(torch.relu(z), self.dropout, self.training)

    def _map(self, features: Features) -> Tensor:
        if UNKNOWN in self.widths.values():
            self._find_out(features)
        self._require(features)
        if torch.is_grad_enabled() or features.num_rows <= ROWS_AT_ONCE:
            return self._products(features)
        out = self.weights[0].new_empty(features.num_rows, self.out_features)
        for nodes in torch.arange(features.num_rows, device=out.device).split(ROWS_AT_ONCE):
            out[nodes[0] : nodes[-1] + 1] = self._products(features.select(nodes))
        return out

    def _products(self, features: Features) -> Tensor:
        weights = dict(zip(self.keys, self.weights, strict=True))
        products = [self._product(block, weights.get(block.key)) for block in features.blocks]
        stacked = products[0] if len(products) == 1 else torch.cat(products)
        if features.order is None or torch.compiler.is_compiling():  # what is kept could not be traced
            return stacked if features.order is None else stacked[features.order]
        return reordered(stacked, features.order, features.order_back)

    def _product(self, block: FeatureBlock, weight: Tensor | None) -> Tensor:
        assert weight is not None
        matrix = block.matrix
        if matrix is None:
            return weight if block.nodes is None else weight[block.nodes]
        if isinstance(matrix, Tensor):
            matrix = matrix.to(weight.dtype)  # stored in half or in double, computed as the model is
        found = self.statistics(block.key)
        if self.training and self.dropout and block.is_dropped:
            p = self.dropout
            matrix = matrix.dropout(p) if isinstance(matrix, SparseMatrix) else drop(matrix, p)
        if isinstance(matrix, SparseMatrix):
            return matrix @ weight
        if found is None:
            return row_product(matrix, weight)
        weight = weight / found[1][:, None]  # the columns of W instead of those of a large X
        return row_product(matrix, weight) - found[0] @ weight

    def _find_out(self, features: Features) -> None:
        """Make the weights of blocks whose width was not known until now."""
        for key, weight in zip(self.keys, self.weights, strict=True):
            if isinstance(weight, nn.UninitializedParameter) and key in features.widths:
                self.widths[key] = features.widths[key]
                weight.materialize((self.widths[key], self.out_features))
                nn.init.xavier_uniform_(weight)

    def _require(self, features: Features) -> None:
        if (self.widths, self.embedded) != (features.widths, features.embedded):
            raise InputError(
                f"the model was built for features ({_listed(self.widths, self.embedded)}), but got "
                f"({_listed(features.widths, features.embedded)}). Both graphs must have the same feature columns."
            )


class OwnLinear(InputLinear):
    """A map of the features of the wanted nodes alone; nodes without features have zeros."""

    def __init__(self, widths: dict[str, int], out_features: int, *, dropout: float = 0.0) -> None:
        super().__init__(widths, {}, out_features, dropout=dropout)

    def _products(self, features: Features) -> Tensor:
        if not self.keys:
            return torch.zeros(features.num_rows, self.out_features, device=features.device)
        return super()._products(features)

    def _product(self, block: FeatureBlock, weight: Tensor | None) -> Tensor:
        if weight is None:
            count = block.width if block.nodes is None else len(block.nodes)
            return self.weights[0].new_zeros(count, self.out_features)
        return super()._product(block, weight)

    def _require(self, features: Features) -> None:
        if self.widths != features.widths:
            super()._require(features)


def _listed(widths: Mapping[str, int], embedded: Mapping[str, int]) -> str:
    words = [f"{key} {count}" for key, count in widths.items()]
    return ", ".join([*words, *(f"{key} {count} embeddings" for key, count in embedded.items())])
