"""PyG's layers with our kernels in place of its messages.

Models import this file when they are built: PyG's layers take a second to import, and a config names all models.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch_geometric.nn import FastRGCNConv, GATConv, GCN2Conv, GCNConv, HANConv, HGTConv, MixHopConv

from fastgtn.relations.kernels.attention import attend, edge_dots, edge_sums
from fastgtn.relations.operator import Operator

if TYPE_CHECKING:
    from fastgtn.nn.baselines.rgcn import TypedMessages


def sum_messages(conv: nn.Module, edge_index: Operator, *, x: Tensor, edge_weight: None = None) -> Tensor:  # noqa: ARG001
    """Replaces PyG's `propagate`; our kernel is many times faster than gathering and scattering."""
    return edge_index.apply(x[:, None], x.new_ones(1, 1)).flatten(1)


class FusedGCNConv(GCNConv):  # type: ignore[misc]
    """GCNConv over a normalised operator."""

    propagate = sum_messages  # defined here, because PyG replaces inherited methods


class FusedGCN2Conv(GCN2Conv):  # type: ignore[misc]
    """GCN2Conv over a normalised operator."""

    propagate = sum_messages


class FusedMixHopConv(MixHopConv):  # type: ignore[misc]
    """MixHopConv over a normalised operator."""

    propagate = sum_messages


class FusedGATConv(GATConv):  # type: ignore[misc]
    """GATConv with softmax and sum in our kernel."""

    def edge_updater(self, edge_index: Tensor, *, alpha: tuple[Tensor, Tensor], **_: None) -> Tensor:
        """The scores of edges, before the softmax."""
        return edge_sums(edge_index, alpha[1], alpha[0], slope=self.negative_slope)

    def propagate(self, edge_index: Tensor, *, x: tuple[Tensor, Tensor], alpha: Tensor, size: None = None) -> Tensor:  # noqa: ARG002
        return attend(edge_index, alpha, x[0], x[1].size(0), dropout=self.dropout if self.training else 0.0)


class FusedHANConv(HANConv):  # type: ignore[misc]
    """HANConv with the attention over neighbours in our kernel."""

    def propagate(self, edge_index: Tensor, *, x: tuple[Tensor, Tensor], alpha: tuple[Tensor, Tensor]) -> Tensor:
        scores = edge_sums(edge_index, alpha[1], alpha[0], slope=self.negative_slope)
        dropout = self.dropout if self.training else 0.0
        return attend(edge_index, scores, x[0], x[1].size(0), dropout=dropout).flatten(1)


class FusedHGTConv(HGTConv):  # type: ignore[misc]
    """HGTConv with attention in our kernel and a cheaper backward pass for the maps of relations.

    PyG writes slices of one table per relation and head, and the backward pass of each slice fills a whole table.
    """

    def _construct_src_node_feat(
        self, k_dict: dict[str, Tensor], v_dict: dict[str, Tensor], edge_index_dict: dict[tuple[str, str, str], Tensor]
    ) -> tuple[Tensor, Tensor, dict[tuple[str, str, str], int]]:
        sizes = [len(k_dict[edge_type[0]]) for edge_type in edge_index_dict]
        offset = dict(zip(edge_index_dict, itertools.accumulate(sizes, initial=0), strict=False))
        k, v = (
            torch.cat([self._mapped(table[edge_type[0]], maps.weight, edge_type) for edge_type in edge_index_dict])
            for table, maps in ((k_dict, self.k_rel), (v_dict, self.v_rel))
        )
        return k, v, offset

    def _mapped(self, x: Tensor, weight: Tensor, edge_type: tuple[str, str, str]) -> Tensor:
        """The messages of one relation from its senders [N, H, D], with a map for each head."""
        by_head = weight.unflatten(0, (self.heads, -1))[:, self.edge_types_map[edge_type]]
        return torch.einsum("nhd,hde->nhe", x, by_head)

    def propagate(self, edge_index: Tensor, *, k: Tensor, q: Tensor, v: Tensor, edge_attr: Tensor) -> Tensor:
        scores = edge_dots(edge_index, q, k) * edge_attr / math.sqrt(q.size(-1))
        return attend(edge_index, scores, v, q.size(0)).flatten(1)


class FusedRGCNConv(FastRGCNConv):  # type: ignore[misc]
    """RGCNConv that maps each sender once per relation, then sums all messages in our kernel."""

    def propagate(self, edge_index: TypedMessages, *, x: Tensor, **_: object) -> Tensor:
        weight = self.weight
        if self.comp is not None:
            weight = torch.einsum("rb,bio->rio", self.comp, weight)
        sent = torch.cat([x[nodes] @ weight[r] for r, nodes in enumerate(edge_index.senders)])
        return edge_index.operator.apply(sent[:, None], sent.new_ones(1, 1)).flatten(1)
