"""Convert other layers to FastGTN with the same output (paper §3.5 and A.3).

GCN and MixHop normalise a graph with self-loops symmetrically. Where every node's in-edges sum to one, that is
½A + ½I, which a hop of FastGTN can express.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, MixHopConv, RGCNConv

from fastgtn.errors import InputError
from fastgtn.nn.aggregate import Aggregation
from fastgtn.nn.fast_gtn import FastGTN
from fastgtn.relations import IDENTITY, Relation


def from_gcn(conv: GCNConv, relations: Sequence[Relation]) -> FastGTN:
    """A graph convolution: one hop, one channel, γ = ½, all weight on the one relation.

    Equal on a row-normalised graph without self-loops in which every node has in-edges.
    """
    _one_relation(relations)
    filters = torch.tensor([[[1.0, 0.0]]])
    return _linear_model([conv.lin.weight.T], conv.bias, relations, filters, gamma=0.5, aggregate="none")


def from_mixhop(conv: MixHopConv, relations: Sequence[Relation]) -> FastGTN:
    """Concatenated powers of the graph: one channel per power, padded with the identity, γ = 0.

    Equal on a row-normalised graph without self-loops in which every node has in-edges.
    """
    _one_relation(relations)
    hops = max(1, *conv.powers)
    filters = torch.zeros(hops, len(conv.powers), 2)
    for channel, power in enumerate(conv.powers):
        filters[:power, channel] = 0.5
        filters[power:, channel] = torch.tensor([0.0, 1.0])
    weights = [conv.lins[power].weight.T for power in conv.powers]
    return _linear_model(weights, conv.bias, relations, filters, gamma=0.0, aggregate="none")


def from_rgcn(conv: RGCNConv, relations: Sequence[Relation]) -> FastGTN:
    """Relational convolution: one channel per basis matrix with signed filters, one for the root weight.

    Equal on the stack ``row_normalized("zero")`` of the same relations, in the same order, with identity.
    """
    if len(relations) != conv.num_relations + 1 or relations[-1] != IDENTITY:
        raise InputError(
            f"the layer has {conv.num_relations} relations, so the stack must have {conv.num_relations} and the "
            f"identity, but it has {len(relations)}: {', '.join(str(r) for r in relations)}."
        )
    if conv.num_blocks is not None or conv.aggr != "mean":
        raise InputError("only RGCN layers with mean aggregation, with or without bases, can be converted.")
    bases = list(conv.weight)
    mixing = torch.eye(len(bases)) if conv.num_bases is None else conv.comp.detach()
    filters = torch.zeros(1, len(bases), len(relations))
    filters[0, :, :-1] = mixing.T
    if conv.root is not None:
        bases.append(conv.root)
        root = torch.zeros(1, 1, len(relations))
        root[..., -1] = 1
        filters = torch.cat([filters.to(root), root], 1)
    return _linear_model(bases, conv.bias, relations, filters, gamma=0.0, aggregate="sum")


def _linear_model(
    weights: Sequence[Tensor],
    bias: Tensor | None,
    relations: Sequence[Relation],
    filters: Tensor,
    *,
    gamma: float,
    aggregate: Aggregation,
) -> FastGTN:
    """One FastGTN layer without activation, one channel per weight matrix, and filters that are given numbers."""
    width, out = weights[0].shape
    model = FastGTN(
        width,
        out,
        relations,
        path_length=filters.size(0),
        num_channels=filters.size(1),
        gamma=gamma,
        aggregate=aggregate,
        activation="none",
        own="shared",
        rescale=False,
        dropout=0.0,
        bias=bias is not None,
    ).to(weights[0].dtype)
    (layer,) = model.typed_layers()
    layer.filters.fix(filters)
    with torch.no_grad():
        model.input.weights[0].copy_(torch.cat(list(weights), 1))
        if layer.bias is not None and bias is not None:
            # concatenated channels have separate biases; with a sum, the bias must be added once
            layer.bias.view(-1)[: bias.numel()] = bias
    return model


def _one_relation(relations: Sequence[Relation]) -> None:
    if len(relations) != 2 or relations[1] != IDENTITY:
        listed = ", ".join(str(r) for r in relations)
        raise InputError(f"this layer supports one relation and the identity, but the stack has: {listed}.")
