"""GTN as the paper computes it: the meta-path graphs are multiplied out, then convolved."""

import torch
from torch import Tensor, nn

from fastgtn.nn import GTN, Features
from fastgtn.relations import RelationStack


class ExplicitGTN(nn.Module):
    r"""One layer of GTN by way of its learned graphs, with the weights of a :class:`GTN`; the same function.

    Args:
        max_memory: Memory limit of the learned graphs in bytes; larger ones are refused before they are built.
    """

    def __init__(self, gtn: GTN, *, max_memory: float) -> None:
        super().__init__()
        assert gtn.num_layers == 1
        self.gtn, self.max_memory = gtn, max_memory
        self.out_features, self.dropout = gtn.out_features, gtn.dropout

    def forward(self, features: Features, stack: RelationStack) -> Tensor:
        """Representations of all nodes."""
        graphs = self.gtn.learned_graphs(stack, max_memory=self.max_memory)
        z = self.gtn.encode(features)
        if self.gtn.biases is not None:
            z = z + self.gtn.biases[0]
        C, gamma = self.gtn.num_channels, self.gtn.gamma
        wide = z[:, None].expand(-1, C, -1).contiguous()  # [N, C, d]
        one_each = torch.eye(C, dtype=z.dtype)  # channel c reads the graph of channel c
        degree = graphs.propagate(torch.ones_like(wide[:, :, :1]), one_each)
        total = degree + gamma  # the rows of the learned graph sum to one, or to zero
        messages = graphs.propagate(wide, one_each)
        if self.gtn.scales is not None:
            messages = self.gtn.scales[:, None] * messages
        out = (messages + gamma * self.gtn.own_inputs(features)) / torch.where(total > 0, total, 1.0)
        result: Tensor = self.gtn.aggregates[0](out)
        return result
