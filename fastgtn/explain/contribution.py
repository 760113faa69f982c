r"""How much each meta-path contributes to the predictions.

With the activation patterns held fixed the logits of every node are a sum over meta-paths. The contribution of a path
is the mean size of its part: a path that a model carries along but does not use contributes nothing, however large
its share is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fastgtn.explain.gates import Gates
from fastgtn.explain.linear import LinearPart
from fastgtn.nn import Features, NodeClassifier
from fastgtn.relations import RelationStack
from fastgtn.relations.paths.metapath import MetaPath


class PathParts:
    """The parts of the logits of some nodes, one for each meta-path.

    Args:
        nodes: Numbers within the target type; by default all.
        is_exclusive: Whether a node has one class, so that only differences between logits matter.
    """

    def __init__(
        self,
        model: NodeClassifier,
        stack: RelationStack,
        features: Features | Tensor,
        target: str,
        *,
        nodes: Tensor | None = None,
        is_exclusive: bool = True,
    ) -> None:
        self.linear, self.is_exclusive = LinearPart(model, stack, features, target), is_exclusive
        self.nodes = torch.arange(len(self.linear.own)) if nodes is None else torch.as_tensor(nodes)
        with torch.no_grad():
            before = self.linear.hidden(self.linear.whole, self.nodes)
            self.gates = Gates.of(model, self.linear.aggregate, before)
        self.own_scale, self.scale = (
            torch.from_numpy(side)[self.nodes] for side in self.linear.scaled(self.linear.whole)
        )

    @torch.no_grad()
    def along(self, path: MetaPath) -> Tensor:
        """The part of the logits that goes through one path, [nodes, classes]."""
        values = torch.from_numpy(self.linear.along(path).values)[self.nodes]
        return self.gates.logits((self.scale * values).transpose(1, 2))

    @torch.no_grad()
    def own(self) -> Tensor:
        """The part of a node's own features (γ), [nodes, classes]."""
        values = torch.from_numpy(self.linear.own)[self.nodes]
        return self.gates.logits((self.own_scale * values).transpose(1, 2))

    def contribution(self, part: Tensor) -> float:
        """The mean size of a part, without what is the same for all classes or all nodes, which decides nothing."""
        if self.is_exclusive:
            part = part - part.mean(1, keepdim=True)
        return float((part - part.mean(0)).abs().mean())
