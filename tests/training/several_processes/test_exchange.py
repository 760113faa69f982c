"""What the processes of a team tell each other: values come back the same, and nothing is pickled."""

import re
from pathlib import Path

import pytest
import torch

import fastgtn
from fastgtn.data import make_planted
from fastgtn.data.metrics import Answers, Tally
from fastgtn.relations import Relation
from fastgtn.training.team import exchange


def test_values_come_back():
    value = {"a": [1, 2.5, None, True, "text", float("inf")], "path": Path("runs/x"), "nested": {"dict": {"path": 1}}}
    value["tuples"] = [(), (1, ("x", [2])), Relation("author", "writes", "paper")]
    assert exchange.decode(exchange.encode(value)) == value
    for tensor in (torch.arange(6).reshape(2, 3), torch.zeros(0, 4), torch.tensor(2.5), torch.tensor([True])):
        back = exchange.decode(exchange.encode([tensor, {"again": tensor}]))
        assert torch.equal(back[0], tensor)
        assert torch.equal(back[1]["again"], tensor)
        assert back[0].dtype == tensor.dtype


def test_a_screening_comes_back_with_its_tuples_and_relations():
    """The other processes start their filters from the relations of its paths, which a list does not equal."""
    found = fastgtn.screen_metapaths(*make_planted(authors=40, papers=40), longest=2, permutations=19)
    back = exchange.decode(exchange.encode(found))
    assert back == found
    assert all(type(relation) is Relation for one in back.chosen for relation in one.path.relations)


@pytest.mark.parametrize("kind", ["single", "multi", "ranking"])
def test_tallies_come_back_and_can_be_added(kind):
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 1, 0]) if kind != "multi" else (logits > 0.3).float()
    chosen = logits.argmax(1) if kind != "multi" else logits > 0
    tally = Tally.of(Answers(kind, logits, chosen, labels))
    back = exchange.decode(exchange.encode(tally))
    assert back.scores() == tally.scores()
    assert (back + tally).scores() == (tally + tally).scores()
    nothing = exchange.decode(exchange.encode(Tally(kind)))
    assert (nothing + back).scores() == tally.scores()
    short = Tally.of(Answers(kind, logits, chosen, labels), each_epoch="macro_f1")
    again = exchange.decode(exchange.encode(short))
    assert again.scores(each_epoch="macro_f1") == tally.scores(each_epoch="macro_f1")
    assert len(again.counts) == len(short.counts)


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match="a set cannot be sent between processes"):
        exchange.encode({1, 2})
    head = b'{"class": ["subprocess", "Popen", {"dict": {}}]}'
    with pytest.raises(TypeError, match="not a data class"):
        exchange.decode(len(head).to_bytes(8, "little") + head)


def test_no_objects_are_pickled_between_processes():
    for path in Path(fastgtn.__file__).parent.rglob("*.py"):
        assert not re.search(r"(gather|reduce|send|recv|scatter)_object|_object_list", path.read_text()), path
