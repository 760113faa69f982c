"""Agreement of several runs about their meta-paths."""

import pytest

from fastgtn.errors import InputError
from fastgtn.explain import RankedPath, Ranking, stability
from fastgtn.relations.paths.metapath import MetaPath, PathNames


def ranking(**weights):
    order = sorted(weights, key=lambda name: -weights[name])
    paths = tuple(
        RankedPath(rank, name, MetaPath((), tuple(name)), weights[name], 0.0, (weights[name],))
        for rank, name in enumerate(order, 1)
    )
    return Ranking("A", paths, 0.1, (0.1,), 0.5, 3, 0, False, "effective", PathNames(["A"], []))


def test_equal_runs_agree():
    result = stability([ranking(AP=0.5, APA=0.3, APV=0.2)] * 3)
    assert result.kendall == pytest.approx(1)
    assert result.top3_overlap == 1
    assert result.warnings == ()
    first = result.paths[0]
    assert (first.name, first.mean, first.std, first.ranks) == ("AP", 0.5, 0.0, (1, 1, 1))


def test_runs_that_disagree_are_named():
    result = stability([ranking(AP=0.5, APA=0.3, APV=0.2), ranking(AP=0.2, APA=0.3, APV=0.5)])
    assert result.kendall == pytest.approx(-1)
    assert any("disagree about the first path: AP in 50%, APV in 50%" in warning for warning in result.warnings)
    assert any("order the paths differently" in warning for warning in result.warnings)
    assert {p.name: p.first_in for p in result.paths} == {"AP": 0.5, "APA": 0.0, "APV": 0.5}


def test_a_path_that_a_run_does_not_list_weighs_nothing_there():
    result = stability([ranking(AP=0.6), ranking(APV=0.4)])
    paths = {p.name: p for p in result.paths}
    assert paths["AP"].mean == pytest.approx(0.3)
    assert paths["AP"].ranks == (1, 2)
    assert result.top3_overlap == 0
    assert any(
        "the weight of AP, 0.300 ± 0.424, is smaller than its deviation" in warning for warning in result.warnings
    )


def test_top_limits_the_list():
    assert [p.name for p in stability([ranking(AP=0.6, APA=0.4)] * 2, top=1).paths] == ["AP"]


def test_one_run_cannot_be_compared():
    with pytest.raises(InputError, match="compares several runs, but got 1: train with --runs 2"):
        stability([ranking(AP=1.0)])
