"""The report: its tables are right, its text is inert, its size is bounded."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pyarrow.parquet
import pytest
import torch
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.config import Config
from fastgtn.data import NodeTask, archive, make_planted
from fastgtn.errors import InputError
from fastgtn.report import render_page, report_tables, write_report
from fastgtn.report.charts.axes import scale, ticks
from fastgtn.report.charts.curves import MOST_POINTS, curve, mean_curve
from fastgtn.report.charts.schema import layout, relation_use
from fastgtn.report.comparison import path_rows, score_rows
from fastgtn.report.judged import MOST_CLASSES, OTHERS, Predictions, class_scores, confusion_of
from fastgtn.report.markup import el, embedded
from fastgtn.report.stored_nodes import MOST_BYTES, choose_nodes
from fastgtn.report.tables import SchemaTable
from fastgtn.runs import load_run, train
from tests.explain.hostile_graph import HOSTILE, train_hostile


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def run(folder):
    return train_hostile(folder)


@pytest.fixture(scope="module")
def tables(run):
    return report_tables([run], nodes=12)[0]


@pytest.fixture(scope="module")
def text(tables):
    return render_page([tables])


def command(*arguments, code=0):
    result = CliRunner().invoke(app, ["report", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def test_the_page_loads_nothing_and_runs_only_its_own_script(text):
    """Browsers refuse every script and style whose hash the policy of the page does not name."""
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    rules = dict(rule.split(" ", 1) for rule in policy.replace("&#39;", "'").replace("&#x27;", "'").split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for kind, tag in (("style-src", "style"), ("script-src", "script")):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        hashes = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in inside]
        assert rules[kind].split() == [f"'sha256-{found}'" for found in hashes]


def test_scores_and_record_are_those_of_the_run(run, tables):
    stored = json.loads((run / "result.json").read_text())
    for name, spread in stored["test"].items():
        assert tables.test[name].mean == pytest.approx(spread["mean"])
        assert tables.test[name].std == pytest.approx(spread["std"])
    assert tables.seeds == (0, 1)
    assert tables.config == (run / "config.toml").read_text()
    assert tables.checksum == json.loads((run / "seed-0" / "result.json").read_text())["data_checksum"]
    assert tables.notes == ()


def test_curves_are_the_history(run, tables):
    history = load_run(run, seed=1).history
    series = tables.curves[1].series
    assert series["loss"] == tuple((r["epoch"], r["loss"]) for r in history)
    assert series["val_micro_f1"][-1][1] == history[-1]["val_micro_f1"]
    scores = [[r["val_micro_f1"] for r in load_run(run, seed=s).history] for s in (0, 1)]
    assert [v for _, v in tables.mean_curve] == pytest.approx([(a + b) / 2 for a, b in zip(*scores, strict=True)])


def test_long_histories_are_thinned_but_keep_the_chosen_epoch():
    history = [{"epoch": e, "loss": 1 / e} for e in range(1, 5001)]
    points = curve(0, 1234, history, ("loss", "val_loss")).series
    assert list(points) == ["loss"]
    assert len(points["loss"]) <= MOST_POINTS + 1
    assert {1, 1234, 5000} <= {epoch for epoch, _ in points["loss"]}
    assert mean_curve([history[:10], history[:7]], "loss")[-1] == (7, 1 / 7)


def test_the_confusion_matrix_counts_validation_nodes(run, tables):
    task = load_run(run).task
    table = pyarrow.parquet.read_table(load_run(run).folder / "predictions.parquet")
    predicted = [table["predicted"][n].as_py() for n in task.val.nodes.tolist()]
    wanted = [[0] * task.num_classes for _ in range(task.num_classes)]
    for truth, name in zip(task.val.labels.tolist(), predicted, strict=True):
        wanted[truth][task.class_names.index(name)] += 1
    judged = tables.judged
    assert judged.split == "val"
    assert [list(row) for row in judged.confusion.counts] == wanted
    assert judged.num_mistakes == sum(map(sum, wanted)) - sum(wanted[c][c] for c in range(task.num_classes))
    assert [c.true for c in judged.classes] == [sum(row) for row in wanted]
    sure = [mistake.confidence for mistake in judged.mistakes]
    assert sure == sorted(sure, reverse=True)
    assert all(mistake.truth != mistake.predicted for mistake in judged.mistakes)


def test_many_classes_are_pooled():
    labels = torch.arange(40) % 20
    task = NodeTask.from_labels(
        "n", "single", labels, train=torch.arange(20), val=torch.arange(20, 40), test=torch.tensor([])
    )
    table = confusion_of(task, labels, labels.roll(1))
    assert len(table.counts) == MOST_CLASSES + 1
    assert table.class_names[-1] == OTHERS
    assert sum(map(sum, table.counts)) == 40


def test_several_labels_are_judged_class_by_class():
    labels = torch.tensor([[1, 0], [1, 1], [0, 1], [1, 0]])
    task = NodeTask.from_labels(
        "n", "multi", labels, train=torch.tensor([0]), val=torch.tensor([1, 2]), test=torch.tensor([3])
    )
    predictions = Predictions.of(task, torch.tensor([[5.0, -5.0], [5.0, -5.0], [5.0, 5.0], [0.0, 0.0]]))
    scores = class_scores(task, task.val.labels.bool(), predictions.given(task.val.nodes))
    assert [(s.true, s.predicted, s.right) for s in scores] == [(1, 2, 1), (2, 1, 1)]
    assert scores[0].precision == 0.5
    assert scores[1].recall == 0.5


def test_shares_of_hops_add_up(tables):
    assert sum(share.weight for share in tables.hop_shares) == pytest.approx(1)
    assert tables.hop_shares[0].weight == tables.ranking.empty_weight
    assert [share.hops for share in tables.hop_shares] == [0, 1, 2]


def test_filters_are_those_of_the_model(run, tables):
    alpha = load_run(run).model.backbone.hop_filters()[0]()
    assert len(tables.filters) == alpha.size(1)
    for one in tables.filters:
        torch.testing.assert_close(torch.tensor(one.weights), alpha[:, one.channel].T.detach())


def test_a_relation_is_used_by_the_paths_that_take_it(tables):
    use = relation_use(tables.ranking)
    wanted = sum(r.weight for r in tables.ranking if any(step.name == "PA" for step in r.path.relations))
    assert use["paper", "PA", "author"] == pytest.approx(wanted)


def test_types_that_hang_on_one_type_are_drawn_around_it():
    star = SchemaTable({"a": 1, "p": 1, "v": 1, "t": 1}, {("a", "1", "p"): 1, ("p", "2", "v"): 1, ("t", "3", "p"): 1})
    places = layout(star)
    assert places["t"][0] < places["p"][0] < places["v"][0]
    assert len(set(places.values())) == 4


def test_mistakes_show_names_beside_ids_only_where_nodes_have_names(tables):
    head = '<th scope="col">id</th>'
    assert head in render_page([tables])
    nameless = tuple(replace(mistake, name="") for mistake in tables.judged.mistakes)
    assert head not in render_page([replace(tables, judged=replace(tables.judged, mistakes=nameless))])


def test_stored_nodes_begin_with_mistakes_and_their_reasons_add_up(run, tables):
    task = load_run(run).task
    assert len(tables.nodes) == 12
    assert tables.nodes[0].id == tables.judged.mistakes[0].id
    for node in tables.nodes:
        parts = sum(part.contribution for part in node.parts) + sum(value for _, value in node.rest)
        assert parts == pytest.approx(node.logit, abs=2e-3)
        assert (node.truth is None) == (node.split in ("test", "none"))
    assert choose_nodes(task, tables.judged.mistakes, 50) == choose_nodes(task, tables.judged.mistakes, 50)
    assert len(set(choose_nodes(task, tables.judged.mistakes, 10_000))) == len(task.train) + len(task.val) + len(
        task.test_nodes
    )


def test_the_page_is_well_formed_and_loads_nothing(text):
    class Page(HTMLParser):
        found: list[tuple[str, dict[str, str | None]]]

        def handle_starttag(self, tag, attrs):
            self.found.append((tag, dict(attrs)))

    reader = Page()
    reader.found = []
    reader.feed(text)
    attributes = [(key, value or "") for _, attrs in reader.found for key, value in attrs.items()]
    assert not [key for key, _ in attributes if key.startswith("on") or key in ("src", "style")]
    assert all(value.startswith("#") for key, value in attributes if key == "href")
    assert [tag for tag, _ in reader.found].count("script") == 2
    assert not {"img", "link", "iframe", "object"} & {tag for tag, _ in reader.found}
    assert "@import" not in text
    assert "url(" not in text
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)


def test_hostile_names_are_text_only(tables, text):
    assert not [name for name in HOSTILE[:3] if name in text]
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    names = {node["name"] for node in data["runs"][0]["nodes"]}
    assert names == {node.name for node in tables.nodes}
    assert any(name.startswith(HOSTILE[3]) for name in names)  # read back unchanged, {{data}} included


def test_escapes():
    assert el("td", "<b>&", title='"x"') == '<td title="&quot;x&quot;">&lt;b&gt;&amp;</td>'
    assert el("td", [el("b", "x"), None, "<"]) == "<td><b>x</b>&lt;</td>"
    value = {"name": "</script>\u2028&"}
    assert json.loads(embedded(value)) == value
    assert not set("<>&\u2028") & set(embedded(value))


def test_ticks_are_round_numbers():
    of = scale([0.13, 0.92], 0, 100)
    assert (of.low, of.high) == pytest.approx((0, 1))
    assert ticks(of) == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert ticks(scale([3.0, 3.0], 0, 1))  # no spread, still an axis


def test_no_names_make_a_page_of_ten_megabytes(run, monkeypatch):
    monkeypatch.setattr("fastgtn.report.stored_nodes.shortened", lambda *_: "<" * 20_000)
    monkeypatch.setattr("fastgtn.report.names.shortened", lambda *_: "<" * 20_000)
    found = report_tables([run], nodes=90)[0]
    assert 0 < len(found.nodes) < 90
    assert MOST_BYTES / 2 < len(render_page([found]).encode()) < 10_000_000


def test_several_runs_side_by_side(folder, run, tables):
    other = train_hostile(folder, runs=1, name="gtn", path_length=1)
    both = report_tables([run, other], nodes=6)
    heads, first, second = score_rows(both)
    assert heads[:4] == ["run", "model", "graph", "seeds"]
    assert first[:4] == [run.name, "fast_gtn", "planted", "2"]
    assert "±" in first[4]
    assert "±" not in second[4]
    assert path_rows(both)[0][0] == (tables.ranking.paths[0].name, tables.ranking.paths[0].weight)
    assert both[1].stability is None
    assert render_page(both).count('type="radio"') == 2


def test_layers_that_do_not_compose_leave_a_note(folder):
    deep = train_hostile(folder, runs=1, path_length=1, num_layers=2)
    found = report_tables([deep], nodes=3)[0]
    assert found.faithfulness is None
    assert all(node.explained is None for node in found.nodes)
    assert any("first layer" in note for note in found.notes)
    assert any("one layer" in note for note in found.notes)
    assert "Do they matter?" not in render_page([found])


def test_a_homogeneous_graph_shows_shares_of_hops(tmp_path):
    graph, task = ring()
    archive.write(tmp_path / "ring.npz", graph, task)
    config = Config.of({"dataset": str(tmp_path / "ring.npz"), "model": {"hidden": 4}, "fit": {"epochs": 3}})
    train(config, out=tmp_path / "run")
    found = report_tables([tmp_path / "run"], nodes=2)[0]
    assert found.ranking.paths[0].name in ("1 hop", "2 hops")
    assert sum(share.weight for share in found.hop_shares) == pytest.approx(1)
    assert "On the schema" not in render_page([found])


def ring():
    graph = HeteroData()
    graph.name, graph.shared_features = "ring", True
    nodes = torch.arange(12)
    graph["node"].x = torch.nn.functional.one_hot(nodes % 3).float()
    graph["node"].num_nodes = 12
    graph["node", "edge", "node"].edge_index = torch.stack([nodes, (nodes + 1) % 12])
    splits = {"train": nodes[:6], "val": nodes[6:9], "test": nodes[9:]}
    return graph, NodeTask.from_labels("node", "single", nodes % 3, **splits)


def test_the_command_writes_a_page_and_plots(run, tmp_path):
    result = json.loads(
        command(run, "--out", tmp_path / "r.html", "--plots", tmp_path / "plots", "--nodes", 2, "--json").stdout
    )
    assert result["bytes"] == (tmp_path / "r.html").stat().st_size
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    figures = ("curves", "metapaths", "filters", "hops", "confusion", "faithfulness", "stability")
    assert names == {f"{name}.{ending}" for name in figures for ending in ("png", "svg")}
    ElementTree.parse(tmp_path / "plots" / "metapaths.svg")


def test_what_the_command_refuses(run, tmp_path):
    out = tmp_path / "r.html"
    out.write_text("mine")
    with pytest.raises(InputError, match=r"already exists.*--force"):
        write_report([run], out)
    assert out.read_text() == "mine"
    with pytest.raises(InputError, match=r"use a name that ends in \.html"):
        write_report([run], tmp_path / "report.pdf")
    with pytest.raises(InputError, match="does not exist: create it first"):
        write_report([run], tmp_path / "no" / "r.html")
    with pytest.raises(InputError, match="given twice"):
        report_tables([run, run])
    with pytest.raises(InputError, match=r"1 … 8 runs"):
        report_tables([])
    with pytest.raises(InputError, match="0 or more"):
        report_tables([run], nodes=-1)
    with pytest.raises(InputError, match=r"the run folder .* does not exist"):
        command(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"already contains files.*--plots"):
        command(run, "--out", tmp_path / "new.html", "--plots", tmp_path)
    with pytest.raises(InputError, match="is a file"):
        command(run, "--out", tmp_path / "new.html", "--plots", out)


def test_a_changed_graph_is_noted(tmp_path):
    run = train_hostile(tmp_path, runs=1)
    graph, task = make_planted("APA", authors=90, papers=120, venues=6, terms=12, seed=2)
    archive.write(tmp_path / "hostile.npz", graph, task, overwrite=True)
    assert any("has changed" in note for note in report_tables([run], nodes=1)[0].notes)
