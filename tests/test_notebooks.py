"""The notebooks run from top to bottom, draw their pictures, and find what their text says."""

import os
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import torch

import fastgtn
from fastgtn.data import available, make_planted
from fastgtn.notebook import html_table

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"


def executed(name: str, folder: Path) -> Any:
    """The notebook after a run in a new kernel."""
    nbformat = pytest.importorskip("nbformat", reason="notebooks need nbformat")
    nbclient = pytest.importorskip("nbclient", reason="notebooks need nbclient and ipykernel")
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(notebook, timeout=None, resources={"metadata": {"path": str(folder)}})
    client.execute(env=os.environ | {"OMP_NUM_THREADS": "1"})  # the other tests have the second core
    return notebook


def outputs(notebook: Any, kind: str) -> list[str]:
    found = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.data[kind] for output in found if kind in output.get("data", {})]


def test_the_first_graph(tmp_path: Path) -> None:
    notebook = executed("first_graph.ipynb", tmp_path)
    assert len(outputs(notebook, "image/png")) == 3
    assert len(outputs(notebook, "text/html")) == 2  # the stack and the result
    assert "'APVP'" in outputs(notebook, "text/plain")


@pytest.mark.slow
@pytest.mark.skipif("dblp" not in available(), reason="the archive dblp is not in the data folder")
def test_metapaths_on_dblp(tmp_path: Path) -> None:
    notebook = executed("dblp_metapaths.ipynb", tmp_path)
    assert len(outputs(notebook, "image/png")) == 2
    assert any("APC" in text for text in outputs(notebook, "text/plain"))


def test_notebooks_are_stored_without_outputs() -> None:
    for path in NOTEBOOKS.glob("*.ipynb"):
        assert '"outputs": []' in path.read_text()
        assert '"output_type"' not in path.read_text()


def test_results_and_stacks_have_a_table() -> None:
    graph, task = make_planted("APA", authors=30, papers=40, venues=6, terms=6, features=4, seed=1)
    result = fastgtn.fit(graph, task, {"model": {"hidden": 4}, "fit": {"epochs": 1}})
    text = unescape(result._repr_html_())
    assert "<th>validation</th><th>test</th>" in text
    assert f"<td>micro-F1</td><td>{result.val['micro_f1']:.4f}</td><td>{result.test['micro_f1']:.4f}</td>" in text
    assert "<td>author ← paper</td><td>PA</td>" in unescape(fastgtn.RelationStack.from_hetero(graph)._repr_html_())


def test_rankings_and_explanations_are_tables() -> None:
    graph, task = make_planted("APA", authors=30, papers=40, venues=6, terms=6, features=4, seed=1)
    result = fastgtn.fit(graph, task, {"model": {"hidden": 4}, "fit": {"epochs": 1}})
    ranking, reasons = result.metapaths(2), result.explain(0, top=1)
    title, head, *rows = repr(ranking).splitlines()
    assert title == f"2 meta-paths from author; {100 * ranking.empty_weight:.1f} % stays at the node"
    assert head.split() == ["meta-path", "contribution", "share", "lift", "p-value"]
    assert [row.split()[:3] for row in rows] == [[p.name, f"{p.contribution:.3f}", f"{p.weight:.3f}"] for p in ranking]
    first = reasons.reasons[0]
    assert repr(reasons).splitlines()[2].split()[:3] == [first.path.name, f"{first.contribution:+.3f}", "author"]
    assert repr(reasons).splitlines()[-1].split() == ["together", f"{reasons.logit:+.3f}"]
    assert f"<td>{first.path.name}</td><td>{first.contribution:+.3f}</td>" in reasons._repr_html_()
    assert f"<td>{ranking[0].name}</td>" in ranking._repr_html_()


def test_names_in_tables_are_text() -> None:
    bad = "<script>alert(1)</script>"
    edges = {("a", bad, "a"): torch.tensor([[0], [1]])}
    assert "<script" not in fastgtn.RelationStack.from_edges(edges, {"a": 2})._repr_html_()
    assert "<script" not in html_table(bad, [bad], [[bad]])
