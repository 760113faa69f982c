"""Encoders of links on another device: nothing may need the memory of the processor, and the scores are the same."""

import pytest
import torch
from pretend_device import DEVICE, Far, PretendDevice

from fastgtn.config.tuned_configs import models
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.links import LinkTask
from fastgtn.links.learned import train as training
from fastgtn.links.learned.result import LearnedLinks, fit_encoders
from fastgtn.options import Values, merged

# without threads that make batches ahead: the pretended device exists in one thread only
BATCHES: dict[str, Values] = {
    "all links": {},
    "neighbor": {"batch": {"size": 40, "sampler": "neighbor", "prefetch": 0}},
    "layer": {"batch": {"size": 40, "sampler": "layer", "budget": 20, "prefetch": 0}},
}
OWN: dict[str, Values] = {
    "han": {"model": {"heads": 2, "attention_dropout": 0.0, "ends": "own"}},  # it computes one node type
    "gat": {"model": {"heads": 2, "attention_dropout": 0.0}},
    "hgt": {"model": {"heads": 2}},
    "node2vec": {"model": {"walks_per_node": 1, "walk_length": 3}},
}


@pytest.fixture(scope="module")
def task() -> LinkTask:
    return LinkTask.from_graph(make_planted_links(users=24, items=18, seed=0), "buys")


def trained(task: LinkTask, model: str, *more: Values, far: bool = True) -> LearnedLinks:
    values: Values = {"fit": {"epochs": 1}, "model": {"hidden": 8, "dropout": 0.0, "head_dropout": 0.0}}
    for layer in (OWN.get(model, {}), *more):
        values = merged(values, layer)
    if not far:
        return fit_encoders(task, model, values, longest=2)
    with pytest.MonkeyPatch.context() as patch, PretendDevice():
        patch.setattr(training, "chosen_device", lambda *_: DEVICE)
        return fit_encoders(task, model, values, longest=2)


@pytest.mark.parametrize("model", models())
def test_every_encoder_trains_there_and_gives_the_same_losses(model: str, task: LinkTask) -> None:
    far, here = (trained(task, model, far=is_far) for is_far in (True, False))
    assert all(not isinstance(p, Far) for p in far.model.parameters())  # it comes back for whoever uses it
    losses = [[record["loss"] for record in one.history] for one in (far, here)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.parametrize("model", models())
def test_batches_of_links_are_handed_over(model: str, task: LinkTask) -> None:
    result = trained(task, model, BATCHES["neighbor"])
    assert all(torch.isfinite(p).all() for p in result.model.parameters())


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("decoder", ["distmult", "mlp"])
def test_every_decoder_and_sampler_works_there(decoder: str, batch: str, task: LinkTask) -> None:
    more: Values = {"model": {"decoder": decoder, "dropout": 0.5, "head_dropout": 0.5}, "fit": {"average": 0.9}}
    result = trained(task, "fast_gtn", BATCHES[batch], more)
    assert len(result.history) == 1
