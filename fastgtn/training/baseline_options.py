"""The keys of the baselines. What each model is, and what its defaults come from, is in docs/training.md."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fastgtn.models import Backbone, Features
from fastgtn.models.baselines import GAT, GCN, GCNII, HAN, HGT, MLP, RGCN, JKNet, MixHop, Node2Vec, WalkOptions
from fastgtn.models.encoders import Encoder
from fastgtn.relations import Relation
from fastgtn.training.backbone_options import BackboneOptions, counted
from fastgtn.training.sections import Amount, Count, Layers, Rate, Share

Power = Annotated[int, Field(ge=0)]


class MLPOptions(BackboneOptions):
    """Features alone, no edges."""

    name: Literal["mlp"]

    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:  # noqa: ARG002
        return MLP(features, self.hidden, num_layers=self.num_layers, dropout=self.dropout)


class Node2VecOptions(BackboneOptions):
    """Grover and Leskovec: embeddings from walks, and a linear classifier."""

    reads_features: ClassVar[bool] = False

    name: Literal["node2vec"]
    num_layers: Literal[1] = 1
    dropout: Share = 0.0
    walk_length: Annotated[int, Field(ge=2)] = 20
    walks_per_node: Count = 10
    window: Count = 5
    negatives: Count = 5
    p: Rate = 1.0
    q: Rate = 1.0

    @property
    def summary(self) -> str:
        return f"{self.label} · {counted(self.walks_per_node, 'walk')} of {self.walk_length} nodes from each"

    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:  # noqa: ARG002
        walks = WalkOptions(self.walk_length, self.walks_per_node, self.window, self.negatives, self.p, self.q)
        return Node2Vec(features, self.hidden, walks, dropout=self.dropout)


class ConvolutionOptions(BackboneOptions):
    """Models that read all relations as one graph."""

    encoder: Encoder = "linear"
    residual: bool = False


class AttentionOptions(BackboneOptions):
    """Models whose heads share the hidden width."""

    heads: Count = 8

    @property
    def summary(self) -> str:
        return f"{super().summary} · {counted(self.heads, 'head')}"

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(
                f"the {self.heads} heads of model.heads share model.hidden, so it must be a multiple of them, "
                f"but it is {self.hidden}."
            )
        return self


class GCNOptions(ConvolutionOptions):
    """Kipf and Welling."""

    name: Literal["gcn"]

    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:  # noqa: ARG002
        return GCN(
            features, self.hidden, num_layers=self.num_layers, dropout=self.dropout, encoder=self.encoder,
            residual=self.residual,
        )  # fmt: skip


class GATOptions(AttentionOptions, ConvolutionOptions):
    """Veličković et al."""

    name: Literal["gat"]
    attention_dropout: Share = 0.5
    negative_slope: Amount = 0.2

    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:  # noqa: ARG002
        return GAT(
            features, self.hidden, num_layers=self.num_layers, heads=self.heads, dropout=self.dropout,
            attention_dropout=self.attention_dropout, negative_slope=self.negative_slope, encoder=self.encoder,
            residual=self.residual,
        )  # fmt: skip


class JKNetOptions(ConvolutionOptions):
    """Xu et al."""

    name: Literal["jk_net"]
    num_layers: Layers = 3
    jump: Literal["cat", "max", "lstm"] = "cat"

    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:  # noqa: ARG002
        return JKNet(
            features, self.hidden, num_layers=self.num_layers, jump=self.jump, dropout=self.dropout,
            encoder=self.encoder, residual=self.residual,
        )  # fmt: skip


class MixHopOptions(BackboneOptions):
    """Abu-El-Haija et al."""

    name: Literal["mixhop"]
    encoder: Encoder = "linear"
    powers: Annotated[tuple[Power, ...], Field(strict=False, min_length=1)] = (0, 1, 2)

    @model_validator(mode="after")
    def _powers_are_distinct(self) -> Self:
        if len(set(self.powers)) < len(self.powers):
            raise ValueError(f"model.powers names a power twice: {list(self.powers)}.")
        return self

    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:  # noqa: ARG002
        return MixHop(
            features, self.hidden, num_layers=self.num_layers, powers=self.powers, dropout=self.dropout,
            encoder=self.encoder,
        )  # fmt: skip


class GCNIIOptions(BackboneOptions):
    """Chen et al."""

    name: Literal["gcnii"]
    num_layers: Layers = 8
    alpha: Share = 0.1
    theta: Rate = 0.5
    shared_weights: bool = True

    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:  # noqa: ARG002
        return GCNII(
            features, self.hidden, num_layers=self.num_layers, alpha=self.alpha, theta=self.theta,
            shared_weights=self.shared_weights, dropout=self.dropout,
        )  # fmt: skip


class RGCNOptions(BackboneOptions):
    """Schlichtkrull et al.; without `num_bases`, relations share no weights."""

    name: Literal["rgcn"]
    encoder: Encoder = "linear"
    num_bases: Count | None = None

    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:
        return RGCN(
            features, self.hidden, relations, num_layers=self.num_layers, num_bases=self.num_bases,
            dropout=self.dropout, encoder=self.encoder,
        )  # fmt: skip


class HANOptions(AttentionOptions):
    """Wang et al.; without `metapaths`, all that leave a node type and return in the next step."""

    name: Literal["han"]
    num_layers: Layers = 1
    encoder: Encoder = "linear"
    metapaths: Annotated[tuple[str | Annotated[tuple[str, ...], Field(strict=False)], ...], Field(strict=False)] = ()
    max_neighbors: Annotated[int, Field(ge=0)] = 100
    attention_dropout: Share = 0.5

    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:
        return HAN(
            features, self.hidden, relations, metapaths=self.metapaths, num_layers=self.num_layers, heads=self.heads,
            max_neighbors=self.max_neighbors, dropout=self.dropout, attention_dropout=self.attention_dropout,
            encoder=self.encoder,
        )  # fmt: skip


class HGTOptions(AttentionOptions):
    """Hu et al."""

    name: Literal["hgt"]

    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:
        return HGT(features, self.hidden, relations, num_layers=self.num_layers, heads=self.heads, dropout=self.dropout)
