"""Why two nodes belong together, by learned encoders: the joined meta-paths of a pair, and of a sample of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fastgtn.links.edges import Array
from fastgtn.links.fit import LinkPath
from fastgtn.links.joined.explain import LinkReason, LinkReasons, strongest
from fastgtn.links.joined.paths import JoinedPaths
from fastgtn.links.learned.model import LinkPredictor
from fastgtn.links.learned.parts import EndParts, PairParts, end_parts, pair_parts
from fastgtn.links.metrics import roc_auc
from fastgtn.links.reverses import Reverses, walked
from fastgtn.links.task import LinkTask
from fastgtn.nn import Backbone
from fastgtn.relations import Relation
from fastgtn.relations.paths.metapath import PathNames
from fastgtn.training.build import Inputs

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

    from fastgtn.links.learned.result import LearnedLinks


def parts_of_pairs(
    model: LinkPredictor, inputs: Inputs, relation: Relation, reverses: Reverses, source: Array, target: Array
) -> PairParts:
    """What each joined meta-path adds to the scores of some pairs, on the graph of some inputs."""
    names = PathNames(inputs.raw.node_types, inputs.raw.relations)
    ends = []
    for encoder, kind, nodes in (
        (model.backbone.source, relation.source, source),
        (model.backbone.target, relation.target, target),
    ):
        ends.append(_matched(encoder, inputs, kind, torch.from_numpy(np.asarray(nodes, np.int64))))
    return pair_parts(model, ends[0], ends[1], reverses, names)


def explain_pair(
    model: LinkPredictor,
    inputs: Inputs,
    graph: HeteroData,
    relation: Relation,
    reverses: Reverses,
    popularity: Tensor,
    source: int,
    target: int,
    *,
    instances: int = 3,
) -> LinkReasons:
    """Decompose the log-odds of one pair, the largest parts first.

    Args:
        inputs: The relations and features that the encoders read.
        graph: The graph that they were made from, in which the instances are looked up.
    """
    found = parts_of_pairs(model, inputs, relation, reverses, np.array([source]), np.array([target]))
    paths = JoinedPaths.of(graph, relation, words=(), reverses=reverses)
    reasons = []
    for name, path, value in zip(found.names, found.paths, found.values[:, 0].tolist(), strict=True):
        word = () if path is None else tuple(paths.relations.index(step) for step in path.relations)
        walks = strongest(paths, word, source, target, top=instances) if len(word) > 1 else ()
        reasons.append(LinkReason(name, () if path is None else path.types, value, walks))
    popular = float(model.popularity.detach().double() * popularity[target].double())
    bias = float(model.bias.detach().double() + found.others[0])
    total = bias + popular + float(found.values[:, 0].sum())
    ordered = tuple(sorted(reasons, key=lambda reason: -abs(reason.contribution)))
    return LinkReasons(source, target, total, bias, popular, ordered)


def joined_paths(result: LearnedLinks, *, most_pairs: int) -> list[LinkPath]:
    """Every joined meta-path by what it contributes to a sample of the validation pairs."""
    task: LinkTask = result.task
    order = np.random.default_rng([task.seed, 0xE]).permutation(len(task.val))[:most_pairs]
    source, target, labels = (side[order] for side in (task.val.source, task.val.target, task.val.labels))
    inputs = result.graphs.stages["val"]
    found = parts_of_pairs(result.model, inputs, task.relation, task.reverses, source, target)
    popularity = result.graphs.popularity(task.train)[torch.from_numpy(target)]
    offsets = result.model.offsets(popularity).detach().double() + found.others
    total = (offsets + found.values.sum(0)).numpy()
    names = PathNames(inputs.raw.node_types, inputs.raw.relations)
    tested = {path.name: path.p_value for path in result.screening.paths}
    whole = roc_auc(total, labels)
    rows = []
    for name, path, part in zip(found.names, found.paths, found.values.numpy(), strict=True):
        gap = part[labels > 0].mean() - part[labels == 0].mean() if 0 < labels.sum() < len(labels) else 0.0
        rows.append(
            LinkPath(
                name,
                () if path is None else path.types,
                float(gap),
                float(np.abs(part - part.mean()).mean()),
                whole - roc_auc(total - part, labels),
                roc_auc(part, labels),
                None if path is None else tested.get(names.short(walked(path, task.reverses))),
            )
        )
    return sorted(rows, key=lambda row: -row.contribution)


def _matched(encoder: Backbone, inputs: Inputs, kind: str, nodes: Tensor) -> EndParts:
    distinct, place = nodes.unique(return_inverse=True)
    return end_parts(encoder, inputs.stack, inputs.features, kind, distinct).at(place)
