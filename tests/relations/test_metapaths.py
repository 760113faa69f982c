"""Names of meta-paths."""

import pytest

from fastgtn.nn import NON_LOCAL
from fastgtn.relations import IDENTITY, Relation
from fastgtn.relations.paths.metapath import MetaPath, PathNames

PA, AP = Relation("paper", "PA", "author"), Relation("author", "AP", "paper")
CP, PC = Relation("conference", "CP", "paper"), Relation("paper", "PC", "conference")
CITES, CITED = Relation("paper", "cites", "paper"), Relation("paper", "cited_by", "paper")
DBLP = PathNames(["author", "paper", "conference"], [PA, AP, CP, PC, IDENTITY])


def test_a_path_is_read_from_the_target_outwards():
    path = MetaPath.of([PA, CP, PC, AP])
    assert path.types == ("author", "paper", "conference", "paper", "author")
    assert DBLP.short(path) == "APCPA"
    assert DBLP.long(path) == "author ← paper ← conference ← paper ← author"


def test_steps_that_do_not_meet_are_refused():
    with pytest.raises(ValueError, match="comes from paper, but the next step paper-PA-author leads to author"):
        MetaPath.of([PA, PA])


def test_the_empty_path_needs_a_type():
    assert DBLP.short(MetaPath.of([], start="author")) == "A"
    with pytest.raises(ValueError, match="needs the node type"):
        MetaPath.of([])


def test_types_with_equal_initials_get_longer_ones():
    names = PathNames(["paper", "Person", "author", "pap"], [])
    assert names.letters == {"paper": "Pape", "Person": "Pe", "author": "A", "pap": "Pap"}


def test_relations_between_the_same_types_are_named():
    names = PathNames(["author", "paper"], [PA, AP, CITES, CITED, IDENTITY])
    assert names.short(MetaPath.of([PA, CITES, AP])) == "AP[cites]PA"
    assert names.long(MetaPath.of([PA, CITED])) == "author ← paper ←[cited_by] paper"


def test_a_non_local_step_has_its_own_letter():
    names = PathNames(["author", "paper"], [PA, AP, NON_LOCAL, IDENTITY])
    path = MetaPath((PA, NON_LOCAL, PA), ("author", "paper", "author", "paper"))
    assert names.short(path) == "AP~AP"
    assert names.long(path) == "author ← paper ~ author ← paper"


def test_homogeneous_paths_are_hop_counts():
    edge = Relation("node", "edge", "node")
    names = PathNames(["node"], [edge, IDENTITY])
    assert [names.short(MetaPath.of([edge] * n, start="node")) for n in range(3)] == ["0 hops", "1 hop", "2 hops"]


def test_homogeneous_paths_with_non_local_steps_are_letters():
    edge = Relation("node", "edge", "node")
    names = PathNames(["node"], [edge, NON_LOCAL, IDENTITY])
    assert names.short(MetaPath((edge, NON_LOCAL), ("node",) * 3)) == "NN~N"
