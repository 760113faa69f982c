"""Labels that follow more paths than there are channels by default, or paths that say nothing alone."""

import pytest
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

import fastgtn
from fastgtn.config import Config
from fastgtn.data import NodeTask
from fastgtn.nn.fast_gtn import FastGTNOptions
from fastgtn.training.build import Inputs
from fastgtn.training.prepare.settle import settle

Planted = tuple[HeteroData, NodeTask]


def sources(count: int, *, kinds: int) -> tuple[HeteroData, Tensor]:
    """Items with one neighbour of each kind, and the sign that each neighbour has: [items, kinds]."""
    generator = torch.Generator().manual_seed(3)
    graph, signs = HeteroData(), []
    graph["item"].num_nodes = count
    for kind in range(kinds):
        name, size = f"kind {kind}", 60
        sign = torch.randint(2, (size,), generator=generator) * 2.0 - 1
        noise = torch.randn(size, 2, generator=generator)
        graph[name].x = torch.cat([sign[:, None] + 0.3 * noise[:, :1], noise[:, 1:]], 1)
        near = torch.randint(size, (count,), generator=generator)
        graph[name, f"r{kind}", "item"].edge_index = torch.stack([near, torch.arange(count)])
        signs.append(sign[near])
    return graph, torch.stack(signs, 1)


@pytest.fixture(scope="module")
def five() -> Planted:
    """Each of five labels follows another path."""
    graph, signs = sources(400, kinds=5)
    labels = (signs > 0).float()
    return graph, NodeTask.from_labels(
        "item", "multi", labels, train=range(200), val=range(200, 300), test=range(300, 400)
    )


def test_a_wide_start_has_a_channel_for_every_chosen_path(five: Planted) -> None:
    graph, task = five
    for start, channels in (("screened", 4), ("wide", 5)):
        config = Config.of({"model": {"start": start}})
        inputs, settled = settle(Inputs.of(graph, config), task, config)
        assert inputs.screening is not None
        ends = {path.path.relations[-1].source for path in inputs.screening.chosen}
        assert ends == {f"kind {number}" for number in range(5)}
        assert settled.model.num_channels == channels


def test_a_wide_start_is_tried_where_paths_are_left_over() -> None:
    options = FastGTNOptions.model_validate({"name": "fast_gtn"})
    assert "wide" in options.trials(5, num_chosen=5)["model.start"]
    assert "wide" in options.trials(4, num_chosen=5)["model.start"]  # the features of the node itself are one of them
    assert "wide" not in options.trials(4, num_chosen=4)["model.start"]
    given = options.model_copy(update={"num_channels": 3})
    assert "wide" not in given.trials(3, num_chosen=3)["model.start"]


def test_a_label_on_the_fifth_path_is_predicted(five: Planted) -> None:
    wide, narrow = (fastgtn.fit(*five, {"model": {"start": start}}) for start in ("wide", "screened"))
    assert wide.test["micro_f1"] > 0.9
    assert wide.test["micro_f1"] > narrow.test["micro_f1"] + 0.03


@pytest.mark.trials
def test_paths_that_predict_only_together_are_found() -> None:
    """The label says whether two neighbours agree, so neither path alone says anything about it."""
    graph, signs = sources(800, kinds=2)
    labels = (signs[:, 0] == signs[:, 1]).long()
    task = NodeTask.from_labels(
        "item", "single", labels, train=range(400), val=range(400, 600), test=range(600, 800), num_classes=2
    )
    given = {"graph": {"normalize": "row", "empty_rows": "self"}, "fit": {"consistency": 0.0, "weight_decay": 0.001}}
    result = fastgtn.fit(graph, task, given)
    assert result.inputs.decisions.screening.num_significant == 0
    assert result.test["micro_f1"] > 0.85
