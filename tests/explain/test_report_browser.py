"""The report in a real browser: drawn, looked up, silent, inert, and the same without a network."""

import re
import shutil
import subprocess
from html import unescape

import pytest

from fastgtn.report import write_report
from tests.explain.hostile_graph import SCRIPT, train_hostile

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open the report in")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--enable-logging=stderr",
    "--v=0",
    "--proxy-server=127.0.0.1:9",
    "--virtual-time-budget=5000",
]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A page of one run, and a page of two."""
    folder = tmp_path_factory.mktemp("pages")
    runs = [train_hostile(folder), train_hostile(folder, runs=1, name="gtn", path_length=1)]
    write_report(runs[:1], folder / "one.html", nodes=90)
    write_report(runs, folder / "two.html", nodes=180)
    return folder


def opened(page, profile, *extra, fragment=""):
    """The document after its scripts have run, and what the browser logged about it."""
    command = [CHROMIUM, *FLAGS, *extra, f"--user-data-dir={profile}", "--dump-dom", f"file://{page}{fragment}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, console


def visible_text(document):
    """What a person reads: without scripts, styles and tags."""
    bare = re.sub(r"<(script|style)\b.*?</\1>", " ", document, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", bare)).split())


def answer(document):
    return visible_text(re.search(r'<div class="answer".*?</section>', document, re.DOTALL)[0])


def test_charts_are_drawn_and_the_console_is_silent(reports, tmp_path):
    document, console = opened(reports / "one.html", tmp_path)
    assert console == []
    for kind, mark in {
        "curves": "path",
        "heat": "rect",
        "hops": "rect",
        "schema": "polygon",
        "scatter": "circle",
    }.items():
        drawing = re.search(rf'<svg class="chart {kind}.*?</svg>', document, re.DOTALL)[0]
        assert f"<{mark} " in drawing, kind
    assert document.count('class="barrow"') > 20


def test_no_column_of_the_tables_of_paths_is_cut(reports, tmp_path):
    look = """<script>addEventListener("load", () => { document.title = "cut: "
        + [...document.querySelectorAll(".columns.wide table")]
        .filter(table => table.scrollWidth > table.parentElement.clientWidth).length; });</script>"""
    page = re.sub(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>", look, (reports / "one.html").read_text())
    (tmp_path / "looked.html").write_text(page)
    document, _ = opened(tmp_path / "looked.html", tmp_path / "profile", "--window-size=1200,900")
    assert document.count('class="columns wide"') > 0
    assert "<title>cut: 0</title>" in document


def test_a_console_error_would_be_seen(reports, tmp_path):
    broken = (reports / "one.html").read_text().replace('"use strict";', '"use strict"; missing();')
    (tmp_path / "broken.html").write_text(broken)
    _, console = opened(tmp_path / "broken.html", tmp_path / "profile")
    assert any("Content Security Policy" in line for line in console)  # the changed script is not even run


def test_a_node_is_looked_up_by_a_link(reports, tmp_path):
    document, console = opened(reports / "one.html", tmp_path, fragment="#node=id-7")
    assert console == []
    text = answer(document)
    assert "id-7" in text
    assert "Predicted topic" in text
    assert "Probabilities" in text
    assert "what adds up to its logit" in text
    assert re.search(r"AP|AA", text)
    assert "own features" in text


def test_an_unknown_node_is_answered_with_the_command(reports, tmp_path):
    document, _ = opened(reports / "one.html", tmp_path, fragment="#node=nobody")
    assert "The node nobody is not stored" in answer(document)
    assert "fastgtn explain" in answer(document)


def test_a_hostile_name_stays_text(reports, tmp_path):
    document, console = opened(reports / "one.html", tmp_path, fragment="#node=%3Cscript%3Ealert(1)%3C/script%3E")
    assert console == []
    assert SCRIPT in answer(document)
    assert len(re.findall(r"<script", document)) == 2
    assert "<img" not in document


def requests(page, folder):
    """How many requests a page made: the browser's own ones do not come from a file."""
    folder.mkdir()
    opened(page, folder / "profile", f"--log-net-log={folder / 'net.json'}", fragment="#node=id-7")
    return (folder / "net.json").read_text().count('"network_isolation_key":"file:')


def test_the_page_asks_for_nothing(reports, tmp_path):
    (tmp_path / "asks.html").write_text('<img src="http://somewhere.invalid/x.png">')
    assert requests(tmp_path / "asks.html", tmp_path / "asks") == 1
    assert requests(reports / "one.html", tmp_path / "report") == 0


def test_one_of_several_runs_is_shown(reports, tmp_path):
    document, console = opened(reports / "two.html", tmp_path, fragment="#run=2&node=id-7")
    assert console == []
    articles = re.findall(r"<article[^>]*>", document)
    assert ["hidden" in article for article in articles] == [True, False]
    assert "Side by side" in visible_text(document)


def test_the_page_is_no_wider_than_a_phone(reports, tmp_path):
    page = (reports / "two.html").read_text()
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', page)[0]
    probe = "<script>document.title = `${document.documentElement.scrollWidth} of ${innerWidth}`</script></body>"
    (tmp_path / "probe.html").write_text(page.replace(policy, "").replace("</body>", probe))
    document, _ = opened(tmp_path / "probe.html", tmp_path / "profile", "--window-size=500,900")
    width, window = map(int, re.search(r"<title>(\d+) of (\d+)", document).groups())
    assert width <= window
