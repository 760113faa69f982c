"""How the parameters of a model start: filters from the screened paths, messages of a size that a layer can read."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch

from fastgtn.data import NodeTask
from fastgtn.nn import Backbone, MetaPathModel, NodeClassifier
from fastgtn.nn.backbone_options import BackboneOptions
from fastgtn.nn.inputs.encoders import InputLinear
from fastgtn.nn.meta_path.options import MetaPathOptions
from fastgtn.relations import Hops
from fastgtn.training.build import CPU, Inputs

MEASURED_NODES = 2000  # at which the size of messages is measured


def measure_features(model: NodeClassifier, inputs: Inputs) -> None:
    """Let the input maps of a model keep the means and deviations of columns that are to be standardised."""
    for module in model.modules():
        if isinstance(module, InputLinear):
            module.measure(inputs.features)


def start_filters(backbone: Backbone, inputs: Inputs, options: BackboneOptions) -> None:
    """Let the filters of the first layer start from the screened paths; without any they stay as they were drawn."""
    if inputs.screening is None or not isinstance(options, MetaPathOptions) or not options.most_started:
        return
    paths = [path.path.relations for path in inputs.screening.chosen]
    for filters in backbone.hop_filters()[:1]:
        filters.start_from([path for path in paths if len(path) <= filters.path_length][: options.most_started])


def freeze_filters(backbone: Backbone) -> None:
    """Fix the filters: every relation has the same weight in every hop."""
    for filters in backbone.hop_filters():
        filters.fix(torch.full_like(filters.logits, 1 / filters.logits.size(-1)))


def rescale_messages(model: NodeClassifier, inputs: Inputs, task: NodeTask) -> None:
    """Bring the messages of each channel to the size of features, measured at some training nodes."""
    backbone = model.backbone
    if not isinstance(backbone, MetaPathModel) or backbone.sees_all_nodes:
        return
    rows = inputs.rows(task.target, task.train.nodes[:MEASURED_NODES])
    plan = replace(inputs, device=CPU).plan(model, rows)
    backbone.rescale(plan.features, cast(Hops, plan.graph))
