"""The sentence about what a link model adds to popularity names the metric and the model that it is about."""

import pytest

from fastgtn import LinkTask, fit_links
from fastgtn.data.synthetic.linked import make_planted_links
from fastgtn.links import fit
from fastgtn.links.verdict import verdict_of


@pytest.mark.parametrize(
    ("gain", "significant", "beyond_paths", "words"),
    [
        (0.061, True, False, "The encoders are worth 6.1 points of NDCG@20 beyond popularity alone, on validation."),
        (0.004, True, False, "Popularity alone scores the same: the encoders are worth 0.4 points of NDCG@20"),
        (-0.019, True, False, "Popularity alone scores 1.9 points of NDCG@20 more than the encoders, on validation."),
        (0.061, False, False, "No meta-path connects links more than other pairs: the ranking shows only popularity."),
        (0.061, False, True, "but the encoders also read features, and they are worth 6.1 points of NDCG@20"),
        (0.001, False, True, "the ranking shows only popularity."),
    ],
)
def test_the_verdict_says_who_is_better(gain: float, significant: bool, beyond_paths: bool, words: str) -> None:
    said = verdict_of(gain, "ndcg@20", significant=significant, what="The encoders", beyond_paths=beyond_paths)
    assert words in said


def test_where_not_all_targets_are_ranked_the_verdict_is_about_roc_auc(monkeypatch: pytest.MonkeyPatch) -> None:
    task = LinkTask.from_graph(make_planted_links(users=60, items=40), "buys")
    assert fit_links(task).metric == "ndcg@20"
    monkeypatch.setattr(fit, "MOST_RANKED", 10)
    found = fit_links(task)
    assert found.facts()["learned"]["metric"] == "roc_auc"
    assert "points of ROC-AUC beyond popularity" in found.verdict
    assert found.notes()[0].endswith("so ROC-AUC chose the model instead of NDCG@20.")
