r"""A score as a sum over pairs of meta-paths, exactly, with the gates of the activations held fixed.

The representation of a source is :math:`z_u = \sum_p z_p(u)` over meta-paths p, that of a target
:math:`y_i = \sum_q y_q(i)`, so with an inner product the score is :math:`\sum_{p,q} z_p(u)^\top r\, y_q(i)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.explain.gates import activation_gates
from fastgtn.explain.linear import LinearPart
from fastgtn.explain.walks import backbone_of
from fastgtn.links.learned.decoders import Dot
from fastgtn.links.learned.model import LinkPredictor
from fastgtn.links.reverses import Reverses, walked
from fastgtn.nn import Backbone, Features
from fastgtn.relations import RelationStack
from fastgtn.relations.paths.metapath import MetaPath, PathNames

MOST_PATHS = 200  # effective meta-paths of one end


@dataclass(frozen=True, eq=False)
class EndParts:
    """The representations of some nodes of one type, taken apart.

    Args:
        paths: Meta-paths; the empty one is the node itself, and None is what biases add.
        values: What each of them adds, float64 [paths, nodes, d].
    """

    paths: tuple[MetaPath | None, ...]
    values: Tensor

    def at(self, places: Tensor) -> EndParts:
        """The parts of some of the nodes."""
        return EndParts(self.paths, self.values[:, places])


@torch.no_grad()
def end_parts(encoder: Backbone, stack: RelationStack, features: Features, node_type: str, nodes: Tensor) -> EndParts:
    """Take the representations of some nodes apart; only what these nodes depend on is read.

    Args:
        nodes: Their numbers within the type.
    """
    backbone = backbone_of(encoder)
    start = stack.nodes_of(node_type).start
    inside = backbone.plan(stack, nodes + start).inputs
    here = nodes
    if inside is not None:
        inside = inside.sort().values  # grouped by type
        first = int((inside < start).sum())
        here = torch.searchsorted(inside, nodes + start) - first
        stack, features = stack.subset(inside), features.select(inside)
    part = LinearPart(backbone, stack, features, node_type)
    before = part.hidden(part.whole, here)  # [n, C, d]
    through, constant = activation_gates(part.aggregate, before)
    own_scale, scale = part.scaled(part.whole)
    rows = here.numpy()
    kind = stack.node_types.index(node_type)
    words = list(part.walks.parts.effective_paths(kind, most=MOST_PATHS + 1))
    if len(words) > MOST_PATHS:
        raise InputError(
            f"more than {MOST_PATHS} meta-paths start at a {node_type}, too many to list: use a smaller path length."
        )

    def carried(values: object) -> Tensor:
        return through(torch.as_tensor(values).transpose(1, 2))  # [n, d, C] → [n, out]

    paths: list[MetaPath | None] = [None]
    values = [constant + through(part.bias.expand_as(before))]
    for word in words:
        path = part.walks.path(kind, word)
        along = (scale * part.along(path).values)[rows]
        paths.append(path)
        values.append(carried(along + (own_scale * part.own)[rows] if not word else along))
    return EndParts(tuple(paths), torch.stack(values))


@dataclass(frozen=True, eq=False)
class PairParts:
    """What each pair of meta-paths adds to the scores of some pairs of nodes.

    Args:
        names: Such as "UAU·UA": the path from the source, and the path to the target. At the dot the two
            nodes that they reach are compared by what was learned of them.
        paths: The two joined to one path where they meet at one type, else None.
        values: Float64 [pairs of paths, pairs of nodes].
        others: What the biases of the encoders add, [pairs of nodes].
    """

    names: tuple[str, ...]
    paths: tuple[MetaPath | None, ...]
    values: Tensor
    others: Tensor


@torch.no_grad()
def pair_parts(
    model: LinkPredictor, source: EndParts, target: EndParts, reverses: Reverses, names: PathNames
) -> PairParts:
    """Combine the parts of both ends, whose nodes are matched one by one."""
    if not isinstance(model.decoder, Dot):
        raise InputError('only with model.decoder = "dot" or "distmult" is a score a sum over pairs of meta-paths.')
    products = torch.einsum("pnd,qnd->pqn", model.decoder.left(source.values).double(), target.values)
    titles, joined, values = [], [], []
    others = torch.zeros(products.size(2), dtype=torch.float64)
    for p, near in enumerate(source.paths):
        for q, far in enumerate(target.paths):
            if near is None or far is None:
                others = others + products[p, q]
                continue
            back = MetaPath(tuple(reverses.get(r, r) for r in reversed(far.relations)), far.types[::-1])
            meets = near.types[-1] == back.types[0]
            titles.append("·".join(names.short(walked(half, reverses)) for half in (near, back)))
            joined.append(MetaPath(near.relations + back.relations, near.types + back.types[1:]) if meets else None)
            values.append(products[p, q])
    stacked = torch.stack(values) if values else torch.zeros(0, len(others), dtype=torch.float64)
    return PairParts(tuple(titles), tuple(joined), stacked, others)
