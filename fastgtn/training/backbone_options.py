"""The keys that all models have."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from fastgtn.models import Backbone, Features
from fastgtn.relations import Relation
from fastgtn.training.sections import Count, Layers, Section, Share


class BackboneOptions(Section):
    """What all models have. A model that reads no features has embeddings for all nodes instead."""

    reads_features: ClassVar[bool] = True

    name: str
    hidden: Count = 64
    num_layers: Layers = 2
    dropout: Share = 0.5
    head_dropout: Share = 0.0

    @property
    def label(self) -> str:
        """The name of the model and of its config files."""
        return self.name

    @property
    def summary(self) -> str:
        """The model in a few words, for people."""
        return f"{self.label} · {counted(self.num_layers, 'layer')}"

    @abstractmethod
    def build(self, features: Features, relations: Sequence[Relation]) -> Backbone:
        """A new model for features and relations like these, with weights drawn from torch's generator."""


def counted(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number > 1)}"
