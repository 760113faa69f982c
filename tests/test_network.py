"""Nothing asks the network: a process in which every connection is an error trains, reports and explains."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"):
        raise SystemExit(f"the network was asked: {event} {arguments}")

sys.addaudithook(refuse)
from fastgtn.cli import main
quick = ["--set", "fit.epochs=2", "--set", "model.hidden=8", "--set", "fit.trial_seconds=0"]
for words in (
    ["data", "make", "planted", "--path", "APA", "--authors", "60", "--out", "g.npz"],
    ["train", "--graph", "g.npz", "--out", "run", *quick],
    ["explain", "run"],
    ["report", "run", "--nodes", "2"],
    ["doctor"],
):
    sys.argv = ["fastgtn", *words]
    try:
        main()
    except SystemExit as ended:
        assert ended.code in (None, 0), (words, ended.code)
"""


def test_nothing_asks_the_network(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "run" / "report.html").exists()
