"""The steps of an epoch over links: all of them in a few folds, or in mini-batches. No step reads its own links."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fastgtn.config import Config
from fastgtn.links.edges import Array
from fastgtn.links.learned.graphs import Encoding, LinkGraphs, labels_of
from fastgtn.links.learned.model import LinkPlan, LinkPredictor
from fastgtn.links.task import Pairs
from fastgtn.nn.classifier import Predictor
from fastgtn.relations import derived_seed
from fastgtn.relations.sampling.entry import samplers
from fastgtn.training.batches import made_ahead, shuffled
from fastgtn.training.build import Plan
from fastgtn.training.propagation import Propagation
from fastgtn.training.steps import Step
from fastgtn.training.team import Team

FOLDS = 5  # without mini-batches, a fifth of the links is hidden at a time


class LinkPasses:
    """What full training and mini-batches share: the validation, and the part of this process."""

    propagation: Propagation | None = None
    num_steps: int

    def __init__(self, graphs: LinkGraphs, model: LinkPredictor, config: Config, team: Team) -> None:
        self.graphs, self.model, self.config, self.team = graphs, model, config, team
        self.drawn = graphs.negatives()
        self.encoding = Encoding(graphs, "val", model.backbone, config)
        self.pairs = graphs.task.val
        self.mine = team.part(len(self.pairs))
        self.val_labels = labels_of(self.pairs)[self.mine]
        self.popularity = graphs.popularity(graphs.task.train)
        self.vectors: tuple[Tensor, Tensor] | None = None

    @torch.no_grad()
    def val(self, model: Predictor) -> Iterable[Tensor]:
        """The scores of this process's validation pairs; the representations stay in `vectors`."""
        assert isinstance(model, LinkPredictor)
        z, y = self.vectors = self.encoding.of(model.backbone.eval())
        source, target = (torch.from_numpy(side[self.mine]) for side in (self.pairs.source, self.pairs.target))
        device = model.bias.device
        parts = zip(source.split(1 << 16), target.split(1 << 16), strict=True)
        return [model.decode(z[u].to(device), y[i].to(device), self.popularity[i].to(device)).cpu() for u, i in parts]

    def _with_negatives(self, links: Array, *seed: int) -> tuple[Pairs, slice, float]:
        """Links and as many other pairs, this process's part of them, and its share of the loss."""
        pairs = Pairs.of(links, self.drawn.like(links, seed=derived_seed(self.config.fit.seed, *seed)))
        mine = self.team.part(len(pairs))
        if mine.start == mine.stop:  # every process takes part in every exchange
            return pairs, slice(0, 1), 0.0
        return pairs, mine, (mine.stop - mine.start) / len(pairs)

    def _step(self, plan: LinkPlan, pairs: Pairs, mine: slice, share: float, num_links: int) -> Step:
        labels = labels_of(pairs)
        device = self.graphs.stages["val"].device
        plan = replace(plan, **{name: getattr(plan, name).to(device) for name in ("source", "target", "popularity")})
        return Step(lambda model: model(plan), labels[mine], num_links, float(len(labels)), share)


class WholeLinks(LinkPasses):
    """A few steps per epoch. Each hides a part of the links, and learns from them on the graph of the others."""

    num_steps = FOLDS

    @cached_property
    def folds(self) -> list[Array]:
        train = self.graphs.task.train
        order = np.random.default_rng([self.config.fit.seed, 0xF01D]).permutation(train.shape[1])
        return [train[:, np.sort(part)] for part in np.array_split(order, FOLDS)]

    @cached_property
    def plans(self) -> list[tuple[tuple[Plan, ...], int, Tensor]]:
        """Per fold the passes over all ends, the place of the first target, and the popularity without the fold."""
        found = []
        for number, links in enumerate(self.folds):
            inputs = self.graphs.without(links)
            rest = np.concatenate([part for other, part in enumerate(self.folds) if other != number], axis=1)
            found.append((*self.graphs.plan_ends(self.model.backbone, inputs), self.graphs.popularity(rest)))
        return found

    def steps(self, epoch: int) -> Generator[Step, None, None]:
        for number, links in enumerate(self.folds):
            if not links.shape[1]:
                continue
            pairs, mine, share = self._with_negatives(links, epoch, number)
            plans, shift, popularity = self.plans[number]
            source, target = (torch.from_numpy(side[mine]) for side in (pairs.source, pairs.target))
            plan = LinkPlan(plans, source, target + shift, popularity[target])
            yield self._step(plan, pairs, mine, share, links.shape[1])


class LinkBatches(LinkPasses):
    """Mini-batches over links, on sampled neighbourhoods of both ends from which the links of the batch are removed.

    Batch b of epoch e depends on nothing but (seed, e, b). All processes sample the same batch, and each
    computes its part of the pairs.
    """

    def __init__(self, graphs: LinkGraphs, model: LinkPredictor, config: Config, team: Team) -> None:
        super().__init__(graphs, model, config, team)
        self.inputs, self.options = graphs.stages["val"], config.batch
        hops = model.backbone.num_hops
        self.sampler = samplers()[self.options.sampler].build(self.options, self.inputs.raw, hops)
        self.degrees = graphs.degrees(graphs.task.train)
        self.num_steps = -(-graphs.task.train.shape[1] // self.options.size)

    def steps(self, epoch: int) -> Generator[Step, None, None]:
        parts = shuffled(self.graphs.task.train.shape[1], self.options.size, self.config.fit.seed, epoch)

        def make(number: int) -> Step:
            return self._make(self.graphs.task.train[:, np.sort(parts[number].numpy())], epoch, number)

        yield from made_ahead(make, range(self.num_steps), self.options.prefetch)

    def _make(self, links: Array, epoch: int, number: int) -> Step:
        pairs, mine, share = self._with_negatives(links, epoch, number)
        starts = [int(self.graphs.rows(side)[0]) for side in (0, 1)]
        every = [
            torch.from_numpy(side) + start for side, start in zip((pairs.source, pairs.target), starts, strict=True)
        ]
        batch = self.sampler.sample(torch.cat(every).unique(), derived_seed(self.config.fit.seed, epoch, number))
        batch = replace(batch, stack=self.graphs.hider.without(batch.stack, links, batch.nodes))
        place = {int(node): k for k, node in enumerate(torch.cat(every).unique())}
        ends, (source, target) = self.model.backbone, (side[mine] for side in every)
        groups = [source, target] if len(ends.encoders) == 2 else [torch.cat([source, target])]
        plans, where = [], []
        for encoder, nodes in zip(ends.encoders, groups, strict=True):
            wanted, position = nodes.unique(return_inverse=True)
            chosen = batch.targets[torch.tensor([place[int(node)] for node in wanted])]
            planned = self.inputs.plan_batch(encoder, replace(batch, targets=chosen))
            plans.append(planned.gather(self.inputs.features).to(self.inputs.device, pin=True))
            where.append(position)
        both = where if len(where) == 2 else list(where[0].split(len(source)))
        seen = self.degrees - self.graphs.degrees(links)
        popularity = torch.from_numpy(np.log1p(seen[pairs.target[mine]])).float()
        plan = LinkPlan(tuple(plans), both[0], both[1], popularity)
        return self._step(plan, pairs, mine, share, links.shape[1])
