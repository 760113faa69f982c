"""FastGTN and GTN as layers and models of PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.nn.fast_gtn import FastGTN
from fastgtn.nn.gtn import GTN
from fastgtn.nn.hetero.graph import HeteroGraph, Metadata, NodeType
from fastgtn.nn.hetero.layer import HeteroLayer, XDict
from fastgtn.nn.meta_path.model import MetaPathModel
from fastgtn.nn.row_linear import RowLinear
from fastgtn.relations.kernels.dropout import drop


class FastGTNConv(HeteroLayer):
    r"""The Fast Graph Transformer layer of `"Graph Transformer Networks: Learning Meta-path Graphs to Improve GNNs"
    <https://arxiv.org/abs/2106.06218>`_, which learns soft meta-paths of K hops.

    .. math::
        Z = f_{agg} \Big( \big\Vert_c \, σ(γ X W_c + (1-γ) F_{1c} F_{2c} ⋯ F_{Kc} X W_c) \Big), \quad
        F_{kc} = \sum_t α_{kct} D_t^{-1} A_t, \quad α_{kc} = \mathrm{softmax}(φ_{kc})

    :math:`A_t` is the adjacency matrix of edge type t, and :math:`X W_c` uses one weight matrix per node type. The
    layer builds the graph from the dictionaries once, and keeps it as long as the same edge tensors come unchanged.

    Args:
        in_channels (int or dict[str, int]): Features of each node; −1 finds out the width in the first pass. A
            dictionary gives a width for each node type.
        out_channels (int): Width of the representation.
        metadata (tuple[list[str], list[tuple[str, str, str]]]): Node and edge types, ``data.metadata()``.
        target (str, optional): Compute only nodes of this type, and what they depend on; without it, all node types.
            (default: :obj:`None`)
        identity (bool, optional): Let a hop stay at its node, so that shorter paths can be learned.
            (default: :obj:`True`)
        normalize (str, optional): ``"row"``, ``"symmetric"``, ``"log"`` or ``"none"``. (default: :obj:`"row"`)
        empty_rows (str, optional): A node without edges of a type keeps its features (``"self"``) or gets zeros
            (``"zero"``). (default: :obj:`"self"`)
        path_length (int, optional): Hops K, the longest meta-path of a layer. (default: :obj:`2`)
        num_channels (int, optional): Learned graphs C side by side. (default: :obj:`2`)
        num_layers (int, optional): Layers one after the other. (default: :obj:`1`)
        gamma (float, optional): Share γ of a node's own features. (default: :obj:`0.2`)
        aggregate (str, optional): How channels are joined: ``"concat"``, ``"mean"``, ``"sum"`` or ``"none"``.
            (default: :obj:`"mean"`)
        activation (str, optional): σ, one of ``"relu"``, ``"elu"``, ``"tanh"`` and ``"none"``.
            (default: :obj:`"relu"`)
        encoder (str, optional): ``"relu"`` puts a ReLU and a second map before the hops.
            (default: :obj:`"linear"`)
        encoder_features (int, optional): Width between these two maps, by default ``out_channels``.
            (default: :obj:`None`)
        own (str, optional): ``"separate"`` gives a node's own features a separate map; ``"shared"`` uses that of
            the messages, as the paper does. (default: :obj:`"separate"`)
        rescale (bool, optional): Let messages have a factor per channel, one until ``backbone.rescale`` is called.
            (default: :obj:`True`)
        dropout (float, optional): Dropout of the features. (default: :obj:`0.5`)
        bias (bool, optional): Add a learned bias to each channel. (default: :obj:`False`)
        filter_init_std (float, optional): Spread of the initial φ. (default: :obj:`0.1`)
        non_local (NonLocalOptions, optional): Add a relation between similar nodes at each hop.
            (default: :obj:`None`)

    Example:
        >>> conv = FastGTNConv(-1, 64, data.metadata(), target="author", path_length=4)
        >>> out = conv(data.x_dict, data.edge_index_dict)
        >>> out["author"].shape
        torch.Size([60, 64])
    """

    model: ClassVar[type[MetaPathModel]] = FastGTN


class GTNConv(HeteroLayer):
    r"""The Graph Transformer layer of `"Graph Transformer Networks" <https://arxiv.org/abs/1911.06455>`_: a graph
    convolution on learned meta-path graphs, exact, and without a product of two sparse matrices.

    .. math::
        Z = f_{agg} \Big( \big\Vert_c \, σ(\tilde{D}_c^{-1} (A_c + γI) X W) \Big), \quad
        A_c = \mathrm{rownorm}(F_{1c} ⋯ F_{Kc}), \quad F_{kc} = \sum_t α_{kct} A_t

    It takes the arguments of :class:`FastGTNConv` but for `non_local`, with these differences:

    Args:
        normalize (str, optional): GTN divides by degrees itself. (default: :obj:`"none"`)
        empty_rows (str, optional): Only used with another `normalize`. (default: :obj:`"self"`)
        gamma (float, optional): Weight γ of the self-loops. (default: :obj:`0.3`)
        filter_init_std (float, optional): Spread of the initial φ. (default: :obj:`0.01`)

    Example:
        >>> conv = GTNConv(-1, 64, data.metadata(), target="author")
        >>> conv(data.x_dict, data.edge_index_dict)["author"].shape
        torch.Size([60, 64])
    """

    model: ClassVar[type[MetaPathModel]] = GTN
    default_normalize = "none"


class _Classifier(HeteroLayer):
    """A layer, dropout and a linear map to class scores of the target nodes."""

    def __init__(
        self,
        in_channels: int | Mapping[NodeType, int],
        hidden_channels: int,
        out_channels: int,
        metadata: Metadata,
        target: NodeType,
        *,
        head_dropout: float = 0.0,
        **options: Any,
    ) -> None:
        if target is None:
            raise InputError("a model needs the node type that it predicts: target=….")
        super().__init__(in_channels, hidden_channels, metadata, target=target, **options)
        self.hidden_channels, self.out_channels, self.head_dropout = hidden_channels, out_channels, head_dropout
        self.head = RowLinear(self.backbone.out_features, out_channels)

    def on(self, x_dict: XDict, graph: HeteroGraph) -> dict[NodeType, Tensor]:
        found = super().on(x_dict, graph)
        return {t: self.head(drop(z, self.head_dropout, self.training)) for t, z in found.items()}

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.head.reset_parameters()


class HeteroFastGTN(_Classifier):
    """:class:`FastGTNConv` with a linear head: class scores of the nodes of one type.

    Args:
        in_channels (int or dict[str, int]): Features of each node; −1 finds out the width in the first pass.
        hidden_channels (int): Width of the representation.
        out_channels (int): Number of classes.
        metadata (tuple[list[str], list[tuple[str, str, str]]]): Node and edge types, ``data.metadata()``.
        target (str): The node type that is predicted.
        head_dropout (float, optional): Dropout of the representation. (default: :obj:`0.0`)
        **options (optional): All other arguments of :class:`FastGTNConv`.

    Example:
        >>> model = HeteroFastGTN(-1, 64, 3, data.metadata(), "author", path_length=4)
        >>> model(data.x_dict, data.edge_index_dict)["author"].shape
        torch.Size([60, 3])
    """

    model: ClassVar[type[MetaPathModel]] = FastGTN


class HeteroGTN(_Classifier):
    """:class:`GTNConv` with a linear head: class scores of the nodes of one type.

    It takes the arguments of :class:`HeteroFastGTN`, and those of :class:`GTNConv` as options.

    Example:
        >>> model = HeteroGTN(-1, 64, 3, data.metadata(), "author")
        >>> model(data.x_dict, data.edge_index_dict)["author"].shape
        torch.Size([60, 3])
    """

    model: ClassVar[type[MetaPathModel]] = GTN
    default_normalize = "none"
