"""The page is drawn for long names and crowded dots, has a table of contents, and exists for baselines too."""

import math
import re
from datetime import UTC, datetime

from fastgtn.config import Config
from fastgtn.data import archive
from fastgtn.report import render_page, report_tables
from fastgtn.report.charts.plain import apart
from fastgtn.report.charts.schema import RADIUS, canvas, layout, schema_chart
from fastgtn.report.figures.run import write_plots
from fastgtn.report.tables import SchemaTable
from fastgtn.runs import train
from tests.explain.test_report import ring


def test_long_names_of_types_are_drawn_whole_and_inside_the_picture():
    long = "customers_of_the_northern_branch_offices"
    nodes = {"customer": 1, long: 2, "merchant category": 3, "x": 4}
    schema = SchemaTable(nodes, {("customer", "1", long): 1, ("merchant category", "2", "x"): 1, ("x", "3", "x"): 1})
    drawing = schema_chart(schema, "names", {}, "customer")
    texts = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*class="name">([^<]*)<', drawing)
    drawn = "".join(text for _, _, text in texts)
    assert all(name.replace(" ", "") in drawn.replace(" ", "") for name in nodes)
    width, height = canvas(schema)
    for x, y, text in texts:
        assert float(x) - 3 * len(text) >= 0
        assert float(x) + 3 * len(text) <= width
        assert 8 <= float(y) <= height
    many = SchemaTable({f"type {k}": 1 for k in range(12)}, {("type 0", "r", "type 1"): 1})
    places = list(layout(many).values())
    assert min(math.dist(a, b) for k, a in enumerate(places) for b in places[:k]) > 2 * RADIUS


def test_dots_do_not_cover_each_other():
    places = apart([(1.0, 5.0), (1.0, 5.0), (2.0, 5.0), (1.0, 5.0), (40.0, 5.0)], 6.0)
    assert [x for x, _ in places] == [1, 1, 2, 1, 40]
    assert min(math.dist(a, b) for k, a in enumerate(places) for b in places[:k]) >= 6 - 1e-6
    assert (places[0], places[4]) == ((1, 5), (40, 5))  # what is alone stays where it is


def test_a_baseline_has_a_page_without_paths(tmp_path):
    graph, task = ring()
    graph.name = "a ring of towns"
    archive.write(tmp_path / "g.npz", graph, task)
    models = {"mlp": 2, "fast_gtn": 1}
    for name, runs in models.items():
        values = {"dataset": str(tmp_path / "g.npz"), "model": {"name": name}, "fit": {"epochs": 2, "runs": runs}}
        train(Config.of(values), out=tmp_path / name)
    tables, before = report_tables([tmp_path / "mlp"], nodes=4), datetime.now(UTC)
    page = render_page(tables)
    assert "<h1>a ring of towns</h1>" in page
    assert any(f"{day:%B %Y}" in page for day in (before, datetime.now(UTC)))  # a month may end meanwhile
    assert "learns no meta-paths" in page
    assert "Learned meta-paths" not in page
    assert "Do the seeds agree?" not in page
    assert "always the commonest: " in page
    links = re.findall(r'<a href="#(run-1-\d)">([^<]*)</a>', page)
    assert [title for _, title in links] == ["Training", "Right and wrong", "Look up a node", "How to repeat it"]
    assert all(f'id="{place}"' in page for place, _ in links)
    both = report_tables([tmp_path / "mlp", tmp_path / "fast_gtn"], nodes=4)
    assert "First meta-paths" in render_page(both)
    assert len(write_plots(both[:1], tmp_path / "plots")) == 4  # curves and confusion, each as PNG and SVG
