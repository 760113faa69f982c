"""A link model: an encoder of each end, and a decoder of two representations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fastgtn.links.learned.decoders import DecoderKind, Dot, build_decoder
from fastgtn.nn import Backbone, Features, HopFilters, MetaPathModel
from fastgtn.nn.backbone_options import BackboneOptions
from fastgtn.nn.classifier import Predictor
from fastgtn.relations import Relation, RelationStack
from fastgtn.relations.kernels.dropout import drop
from fastgtn.training.build import Plan

MLP_PAIRS = 1 << 18  # pairs that a decoder without inner products scores at once


@dataclass(frozen=True, eq=False)
class LinkPlan:
    """One forward pass: from features to the scores of some pairs.

    Args:
        plans: The pass of both ends together, or one for the sources and one for the targets.
        source: The places of the sources among the rows of the first pass, [B].
        target: The places of the targets among the rows of the last pass, [B].
        popularity: log(1 + links of the target), [B], in the graph that the pass reads.
    """

    plans: tuple[Plan, ...]
    source: Tensor
    target: Tensor
    popularity: Tensor


class Ends(Backbone):
    """The encoders of sources and of targets: one for both, or two that share nothing but the input map.

    With one input map both ends live in one space, so that two nodes that reach the same third node are similar
    before anything is learned.
    """

    def __init__(self, source: Backbone, target: Backbone | None) -> None:
        super().__init__()
        self.source = source
        self.other = target
        if isinstance(source, MetaPathModel) and isinstance(target, MetaPathModel):
            target.input, target.second = source.input, source.second
        self.out_features, self.dropout = source.out_features, source.dropout
        self.sees_all_nodes, self.may_skip_weights = source.sees_all_nodes, True
        self.head_dropout = 0.0

    @property
    def target(self) -> Backbone:
        """The encoder of targets."""
        return self.source if self.other is None else self.other

    @property
    def encoders(self) -> tuple[Backbone, ...]:
        """The distinct encoders."""
        return (self.source,) if self.other is None else (self.source, self.other)

    @property
    def num_hops(self) -> int:
        return max(encoder.num_hops for encoder in self.encoders)

    def hop_filters(self) -> list[HopFilters]:
        return [filters for encoder in self.encoders for filters in encoder.hop_filters()]

    def prepare(self, features: Features, stack: RelationStack) -> None:
        for encoder in self.encoders:
            encoder.prepare(features, stack)


class LinkPredictor(Predictor):
    r"""The log-odds of a link, :math:`b + β \log(1 + d_i) + \mathrm{decoder}(z_u, y_i)`."""

    backbone: Ends

    def __init__(self, ends: Ends, decoder: DecoderKind, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.backbone, self.dropout = ends, dropout
        self.decoder = build_decoder(decoder, ends.out_features)
        self.bias = nn.Parameter(torch.zeros(()))
        self.popularity = nn.Parameter(torch.zeros(()))

    @staticmethod
    def build(
        options: BackboneOptions,
        features: Features,
        relations: Sequence[Relation],
        *,
        decoder: DecoderKind,
        is_shared: bool,
    ) -> LinkPredictor:
        """A new model, with weights drawn from torch's generator."""
        source = options.build(features, relations)
        target = None if is_shared else options.build(features, relations)
        return LinkPredictor(Ends(source, target), decoder, dropout=options.head_dropout)

    def forward(self, plan: LinkPlan) -> Tensor:
        """The scores of the pairs of a plan, [B]."""
        z = plan.plans[0].logits(self.backbone.source)
        y = z if len(plan.plans) == 1 else plan.plans[1].logits(self.backbone.target)
        return self.decode(self._drop(z)[plan.source], self._drop(y)[plan.target], plan.popularity)

    def decode(self, z: Tensor, y: Tensor, popularity: Tensor) -> Tensor:
        """The scores of pairs of representations."""
        score: Tensor = self.decoder(z, y)
        return score + self.offsets(popularity).to(score.dtype)

    def offsets(self, popularity: Tensor) -> Tensor:
        """What the constant and the popularity of the target add."""
        return self.bias + self.popularity * popularity.to(self.bias.dtype)

    def vectors(self, z: Tensor, y: Tensor, popularity: Tensor) -> tuple[Tensor, Tensor] | None:
        """Two matrices whose inner products are all scores; None if the decoder has none."""
        if not isinstance(self.decoder, Dot):
            return None
        left = torch.cat([self.decoder.left(z), z.new_ones(len(z), 1)], 1)
        return left, torch.cat([y, self.offsets(popularity).to(y.dtype)[:, None]], 1)

    @torch.no_grad()
    def rows(self, z: Tensor, y: Tensor, popularity: Tensor) -> Tensor:
        """The scores of some sources with every target, [sources, targets]."""
        both = self.vectors(z, y, popularity)
        if both is not None:
            return both[0] @ both[1].T
        size = max(1, MLP_PAIRS // max(len(y), 1))
        blocks = [
            self.decoder(part[:, None].expand(-1, len(y), -1), y.expand(len(part), -1, -1)) for part in z.split(size)
        ]
        return torch.cat([z.new_zeros(0, len(y)), *blocks]) + self.offsets(popularity).to(z.dtype)

    def weights(self) -> dict[str, Tensor]:
        """The weights without those that both ends share twice: what a file keeps."""
        seen: dict[int, str] = {}
        kept = {}
        for name, tensor in self.state_dict(keep_vars=True).items():
            if seen.setdefault(id(tensor), name) == name:
                kept[name] = tensor.detach()
        return kept

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        """The weights that :meth:`weights` kept; others are refused by torch."""
        missing = {name for name in self.state_dict() if name not in self.weights()}
        found = self.load_state_dict(weights, strict=False)
        if set(found.missing_keys) != missing or found.unexpected_keys:
            wrong = sorted({*found.missing_keys} ^ missing) + list(found.unexpected_keys)
            raise ValueError(f"weights are missing or not expected: {wrong[0]}")

    def _drop(self, z: Tensor) -> Tensor:
        return drop(z, self.dropout, self.training)
