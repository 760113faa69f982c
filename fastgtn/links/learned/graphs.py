"""The graphs of a link task as an encoder reads them: at each stage, and with some training links hidden."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fastgtn.config import Config
from fastgtn.links.edges import Array
from fastgtn.links.joined.supervision import popularity_of
from fastgtn.links.learned.hiding import Hider
from fastgtn.links.learned.model import Ends
from fastgtn.links.negatives import Negatives
from fastgtn.links.reverses import both_directions
from fastgtn.links.task import LinkTask, Pairs, Stage
from fastgtn.nn import NodeClassifier
from fastgtn.training.build import Inputs, Plan, build_stack
from fastgtn.training.predict import Inference


@dataclass(frozen=True, eq=False)
class LinkGraphs:
    """Relations in both directions, features, and which edges are links.

    Args:
        stages: The inputs of a model at each stage; they share their features.
        hider: Removes links.
    """

    task: LinkTask
    stages: dict[Stage, Inputs]
    hider: Hider

    @staticmethod
    def of(task: LinkTask, config: Config) -> LinkGraphs:
        """Prepare the graphs of a task. Links are removed from one stack, so all stages have the same relations."""
        both, _ = both_directions(task.graph_at("use"), task.reverses)
        use = replace(Inputs.of(both, config), moments=None)  # links have no moments
        hider = Hider.of(both, use.raw, task.relation)
        test = use
        if task.whole is not task.test_graph:
            test = replace(use, raw=hider.without(use.raw, task.test.links))
        val = replace(use, raw=hider.without(test.raw, task.val.links))
        stages: dict[Stage, Inputs] = {"val": val, "test": test, "use": use}
        if task.is_timed:  # edges of other relations that came later are hidden as well
            for stage in ("val", "test"):
                past, _ = both_directions(task.graph_at(stage), task.reverses)
                stages[stage] = replace(use, raw=build_stack(past, config.graph))
        return LinkGraphs(task, stages, hider)

    def on(self, device: torch.device) -> LinkGraphs:
        """The same graphs, whose plans are handed over on a device."""
        return replace(self, stages={stage: inputs.on(device) for stage, inputs in self.stages.items()})

    def without(self, links: Array) -> Inputs:
        """The graph of training without some of its links."""
        val = self.stages["val"]
        return replace(val, raw=self.hider.without(val.raw, links))

    def use_without(self, links: Array) -> Inputs:
        """The graph with all known links but some."""
        use = self.stages["use"]
        return replace(use, raw=self.hider.without(use.raw, links))

    def degrees(self, links: Array) -> Array:
        """How many of some links each target has."""
        found: Array = np.round(np.expm1(popularity_of(self.task, links)))
        return found

    def popularity(self, links: Array) -> Tensor:
        """log(1 + links) of every target."""
        return torch.from_numpy(popularity_of(self.task, links)).float()

    def rows(self, side: int) -> Tensor:
        """The numbers of all sources (0) or of all targets (1) over all types."""
        relation = self.task.relation
        return torch.tensor(self.stages["use"].raw.nodes_of((relation.source, relation.target)[side]))

    def plan_ends(self, ends: Ends, inputs: Inputs) -> tuple[tuple[Plan, ...], int]:
        """Passes over all sources and all targets, and the place of the first target in the last pass."""
        rows = [self.rows(0), self.rows(1)]
        if len(ends.encoders) == 2:
            return (inputs.plan_for(ends.source, rows[0]), inputs.plan_for(ends.target, rows[1])), 0
        if self.task.is_within_one_type:
            return (inputs.plan_for(ends.source, rows[0]),), 0
        return (inputs.plan_for(ends.source, torch.cat(rows)),), len(rows[0])

    def negatives(self) -> Negatives:
        """Where the pairs that training compares with come from."""
        return Negatives.of(self.task.graph, self.task.relation, self.task.train, kind=self.task.negatives)


def labels_of(pairs: Pairs) -> Tensor:
    """Whether each pair is a link, and its source: int64 [B, 2]."""
    return torch.from_numpy(np.stack([pairs.labels.astype(np.int64), pairs.source.astype(np.int64)], 1))


class Encoding:
    """The representations of all sources and all targets at one stage, with the present weights of a model.

    What they depend on is prepared once, and memory is bounded as for predictions of nodes.
    """

    def __init__(self, graphs: LinkGraphs, stage: Stage, ends: Ends, config: Config) -> None:
        self.graphs, self.stage = graphs, stage
        self.inferences = [
            Inference(graphs.stages[stage], headed, graphs.rows(side), config.batch, seed=config.fit.seed)
            for side, headed in enumerate(_headed(ends))
        ]

    def of(self, ends: Ends) -> tuple[Tensor, Tensor]:
        """Representations [sources, d] and [targets, d]."""
        z, y = (
            torch.cat([part.cpu() for part in inference.representations(headed)])
            for inference, headed in zip(self.inferences, _headed(ends), strict=True)
        )
        return z, y


def _headed(ends: Ends) -> list[NodeClassifier]:
    """The encoders in the form in which nodes are predicted; their heads are not used."""
    with torch.random.fork_rng(devices=[]):
        return [NodeClassifier(encoder, 1) for encoder in (ends.source, ends.target)]
