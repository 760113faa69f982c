"""Archives that say which links are for training, validation and test."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.data import archive, catalog
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.errors import InputError
from fastgtn.links import LinkTask, Pairs, fit_links
from fastgtn.links.edges import with_links
from fastgtn.links.task import task_of_archive
from fastgtn.relations import Relation

BUYS = ("user", "buys", "item")
USERS, ITEMS = 60, 40


def stored() -> tuple[HeteroData, dict[str, Any], np.ndarray, np.ndarray]:
    """A graph with training links only, its arrays, all links [2, E] within their types, and their split."""
    graph = make_planted_links(users=USERS, items=ITEMS, seed=1)
    links = graph[BUYS].edge_index.numpy()
    split = np.arange(links.shape[1]) % 10
    split = np.where(split < 8, 0, split - 7)  # 0 train, 1 validation, 2 test
    graph[BUYS].edge_index = torch.from_numpy(links[:, split == 0])
    arrays = {"lp_relation": np.array("buys"), "lp_src": links[0], "lp_dst": links[1] + USERS, "lp_split": split}
    return graph, arrays, links, split


def pairs_in(links: np.ndarray) -> set[tuple[int, int]]:
    return set(map(tuple, links.T.tolist()))


def test_the_split_of_the_archive_is_used() -> None:
    graph, arrays, links, split = stored()
    task = task_of_archive(graph, arrays)
    assert pairs_in(task.train) == pairs_in(links[:, split == 0])
    assert pairs_in(task.val.links) == pairs_in(links[:, split == 1])
    assert pairs_in(task.test.links) == pairs_in(links[:, split == 2])
    assert len(task.val) == 2 * (split == 1).sum()  # negatives are drawn
    assert not pairs_in(np.stack([task.test.source, task.test.target])[:, task.test.labels == 0]) & pairs_in(links)
    known = pairs_in(links[:, split < 2])  # the validation links are known when the test is scored
    assert pairs_in(task.test_graph[BUYS].edge_index.numpy()) == known
    assert pairs_in(task.graph[BUYS].edge_index.numpy()) == pairs_in(links[:, split == 0])
    assert pairs_in(graph[BUYS].edge_index.numpy()) == pairs_in(links[:, split == 0])  # the given graph is as it was
    assert fit_links(task, longest=2).notes() == []  # both are drawn alike


def test_a_split_with_labels_has_the_negatives_of_the_archive() -> None:
    graph, arrays, _, _ = stored()
    drawn = task_of_archive(graph, arrays)
    every = [drawn.val, drawn.test]
    arrays |= {
        "lp_src": np.concatenate([pairs.source for pairs in every]),
        "lp_dst": np.concatenate([pairs.target for pairs in every]) + USERS,
        "lp_label": np.concatenate([pairs.labels for pairs in every]),
        "lp_split": np.repeat([1, 2], [len(pairs) for pairs in every]),
    }
    task = task_of_archive(graph, arrays, seed=5)
    for mine, wanted in ((task.val, drawn.val), (task.test, drawn.test)):
        for name in ("source", "target", "labels"):
            assert np.array_equal(getattr(mine, name), getattr(wanted, name))
    assert not task.has_given_test  # validation and test are alike


def test_an_evaluation_sample_comes_before_the_split() -> None:
    graph, arrays, links, split = stored()
    sample = links[:, split == 2][:, :5]
    others = np.stack([sample[0], (sample[1] + 1) % ITEMS])
    both = np.concatenate([sample, others], axis=1)
    arrays |= {
        "lp_eval_src": both[0],
        "lp_eval_dst": both[1] + USERS,
        "lp_eval_label": np.repeat([1, 0], 5),
        "lp_relation": np.array(["buys"]),
    }
    task = task_of_archive(graph, arrays)
    assert len(task.test) == 10
    assert pairs_in(task.val.links) == pairs_in(links[:, split == 1])
    assert task.has_given_test


def test_validation_links_are_drawn_where_the_archive_has_none() -> None:
    graph, arrays, links, split = stored()
    task = task_of_archive(graph, arrays | {"lp_split": np.where(split == 1, 0, split)})
    assert pairs_in(task.val.links) | pairs_in(task.train) == pairs_in(links[:, split == 0])
    assert len(task.val.links[0]) == round(0.1 * (split == 0).sum())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lp_relation": np.array(["buys", "visits"])}, "links of 2 relations .buys, visits.*--link"),
        ({"lp_split": np.zeros(3, int)}, "lp_split has 3 entries"),
        ({"lp_label": np.zeros(3)}, "the same number of entries"),
        ({"lp_relation": np.array("bought")}, 'no relation "bought"'),
    ],
)
def test_archives_that_contradict_themselves(changed: dict[str, Any], message: str) -> None:
    graph, arrays, _, _ = stored()
    with pytest.raises(InputError, match=message):
        task_of_archive(graph, arrays | changed)


def test_archives_without_test_pairs() -> None:
    graph, arrays, _, split = stored()
    with pytest.raises(InputError, match="no test pairs"):
        task_of_archive(graph, arrays | {"lp_split": np.minimum(split, 1)})
    with pytest.raises(InputError, match="has no lp_label"):
        task_of_archive(graph, {name: arrays[name] for name in ("lp_relation", "lp_src", "lp_dst")})
    with pytest.raises(InputError, match="stores no link task"):
        task_of_archive(graph, {})


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_added_links_have_the_usual_weight_and_no_time(dtype: torch.dtype) -> None:
    graph, _, links, split = stored()
    store = graph[BUYS]
    count = store.edge_index.size(1)
    store.edge_weight, store.time = torch.full((count,), 3, dtype=dtype), torch.arange(count, dtype=torch.float64)
    store.number = torch.arange(count)
    graph["item", "bought_by", "user"].edge_index = store.edge_index.flip(0)
    wider = with_links(graph, Relation(*BUYS), links[:, split == 1])
    added = wider[BUYS].edge_index.size(1) - count
    assert added == (split == 1).sum()
    assert wider[BUYS].edge_weight[-added:].tolist() == [3] * added
    assert wider[BUYS].time[-added:].isnan().all()
    assert "number" not in wider[BUYS]
    assert wider["item", "bought_by", "user"].edge_index.equal(wider[BUYS].edge_index.flip(0))
    assert with_links(wider, Relation(*BUYS), links[:, split == 1])[BUYS].edge_index.size(1) == count + added


def test_given_validation_pairs_are_checked() -> None:
    graph, _, links, split = stored()
    test = Pairs.of(links[:, split == 2], links[:, :0])
    wrong = Pairs.of(links[:, split == 1] + USERS, links[:, :0])
    with pytest.raises(InputError, match="must lie in 0 … 59"):
        LinkTask.from_pairs(graph, "buys", test=test, val=wrong)


def test_graphs_with_links_are_listed_by_the_shortest_name(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    for name in ("hgb_lp_lastfm", "a_shop", "b_shop", "films"):
        archive.write(tmp_path / "links" / f"{name}.npz", make_planted_links(users=20, items=20), None)
    assert list(catalog.linked(tmp_path)) == ["a_shop", "b_shop", "films", "lastfm"]
    assert catalog.linked(tmp_path)["lastfm"] == catalog.locate("lastfm", data_dir=tmp_path)
    with pytest.raises(InputError, match=r'no dataset "lasfm" in .*; did you mean "lastfm"'):
        catalog.locate("lasfm", data_dir=tmp_path)
    answer = CliRunner().invoke(app, ["ls", "--data-dir", str(tmp_path)], catch_exceptions=False)
    assert "links   a_shop, b_shop, films, lastfm (fastgtn train --task link --dataset NAME)" in answer.stdout
