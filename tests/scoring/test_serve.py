"""The server answers as `predict` does, loses nothing under load, and refuses bad requests with the reason."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from http_client import Client, served
from quick_config import quick
from typer.testing import CliRunner

import fastgtn
from fastgtn.cli import app as commands
from fastgtn.data import tables
from fastgtn.errors import InputError
from fastgtn.serve import batching
from fastgtn.serve.app import build_app, is_loopback
from fastgtn.serve.scorer import Scorer
from fastgtn.serve.server import listening, run_server

pytest.importorskip("starlette")
Row = dict[str, Any]


@pytest.fixture(scope="module")
def port(run_folder: Path) -> Iterator[int]:
    with served(fastgtn.load_run(run_folder)) as number:
        yield number


@pytest.fixture(scope="module")
def expected(run_folder: Path) -> dict[str, Row]:
    return {row["node"]: row for row in fastgtn.load_run(run_folder).predict().to_pylist()}


def assert_close(row: Row, expected: Row) -> None:
    assert row.keys() == expected.keys()
    for key, value in expected.items():
        assert row[key] == (pytest.approx(value, abs=1e-6, rel=0) if isinstance(value, float) else value)


def test_stored_nodes_are_answered_in_their_order(port: int, expected: dict[str, Row]) -> None:
    status, answer = Client(port).predict(nodes=["a-07", "Ada 3", "a-07"])
    assert status == 200
    assert answer == {"predictions": [expected["a-07"], expected["a-03"], expected["a-07"]]}


def test_embeddings_come_on_request(port: int, run_folder: Path) -> None:
    _, answer = Client(port).predict(nodes=["a-07"], embeddings=True)
    run = fastgtn.load_run(run_folder)
    assert answer["predictions"][0]["embedding"] == run.embeddings(["a-07"]).values[0].tolist()


def test_new_nodes_are_answered_beside_stored_ones(port: int, run_folder: Path, expected: dict[str, Row]) -> None:
    new = {"id": "n", "features": [0.1 * k for k in range(8)], "edges": {"AP": [3, "77"], "friend": ["a-05"]}}
    status, answer = Client(port).predict(nodes=["a-07"], new=[new], embeddings=True)
    assert status == 200
    stored, found = answer["predictions"]
    assert stored["predicted"] == expected["a-07"]["predicted"]
    run = fastgtn.load_run(run_folder)
    (row,) = run.predict_new([new]).to_pylist()
    assert {key: found[key] for key in row} == row
    assert len(found["embedding"]) == run.embeddings(["a-07"]).values.size(1)


def test_health_names_the_run(port: int, run_folder: Path) -> None:
    status, facts = Client(port).send("GET", "/health")
    assert (status, facts["status"], facts["target"], facts["nodes"]) == (200, "ok", "author", 90)
    assert facts["run"].startswith(str(run_folder))


def test_a_thousand_requests_of_eight_clients(port: int, run_folder: Path, expected: dict[str, Row]) -> None:
    new = [{"id": f"n{k}", "features": [0.1 * k] * 8, "edges": {"AP": [k, 50 + k]}} for k in range(3)]
    run = fastgtn.load_run(run_folder)
    expected_new = [run.predict_new([node]).to_pylist()[0] for node in new]

    def ask(number: int) -> int:
        client, draw = Client(port), random.Random(number)
        for request in range(125):
            ids = [f"a-{draw.randrange(90):02}" for _ in range(draw.randint(1, 5))]
            if request % 25 == 24:
                status, answer = client.predict(nodes=[*ids, "nobody"])
                assert (status, answer) == (400, {"error": answer["error"]})
                assert 'no author node "nobody"' in answer["error"]
                continue
            if request % 10 == 9:
                status, answer = client.predict(new=[new[request % 3]])
                assert (status, answer["predictions"]) == (200, [expected_new[request % 3]])
                continue
            status, answer = client.predict(nodes=ids)
            assert status == 200
            for name, row in zip(ids, answer["predictions"], strict=True):
                assert_close(row, expected[name])
        return request + 1

    with ThreadPoolExecutor(8) as clients:
        assert sum(clients.map(ask, range(8))) == 1000
    facts = Client(port).send("GET", "/health")[1]
    assert facts["requests"] >= 8 * 108
    assert facts["batches"] <= facts["requests"]


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b'{"nodes": ["a-07"', 400, "cannot be read as JSON"),
        (b"[" * 9000, 400, "cannot be read as JSON"),
        (b'{"nodes": [NaN]}', 400, "NaN is not a JSON number"),
        (b'{"nodes": [1.5]}', 400, "nodes.0"),
        (b'{"node": ["a-07"]}', 400, "node: there is no such key"),
        (b"[]", 400, "the body: an object is expected"),
        (b"{}", 400, "the request has no nodes"),
        (b'{"new": [{"id": "n", "features": [1, 2]}]}', 400, "features are a list of 8 numbers, but got 2 numbers"),
        (b'{"new": [{"id": "n", "edges": {"AP": [true]}}]}', 400, "new.0.edges.AP.0"),
        (b'{"new": [{"features": []}]}', 400, "new.0.id: Field required"),
        (b'{"nodes": ["a-99", "a-98"]}', 400, "2 of 2 ids are not those of author nodes"),
        (json.dumps({"nodes": ["a-07"] * 51}).encode(), 413, "the request has 51 nodes; at most 50 are allowed"),
        (b" " * 20_001, 413, "the body is larger than 20,000 bytes"),
    ],
)
def test_bad_requests_get_the_reason(port: int, body: bytes, status: int, reason: str) -> None:
    found, answer = Client(port).send("POST", "/predict", body)
    assert found == status
    assert reason in answer["error"]


def test_other_routes_types_and_hosts_are_refused(port: int) -> None:
    status, answer = Client(port).send("GET", "/predict")
    assert (status, answer["error"].split(".")[0]) == (405, "GET /predict: Method Not Allowed")
    status, answer = Client(port).send("GET", "/nowhere")
    assert status == 404
    assert "The routes are GET /health and POST /predict" in answer["error"]
    status, answer = Client(port).send("POST", "/predict", b"{}", **{"Content-Type": "text/plain"})
    assert status == 400
    assert 'its type is "text/plain"' in answer["error"]
    status, answer = Client(port).send("GET", "/health", Host="evil.example")
    assert status == 400
    assert 'got the host name "evil.example"' in answer["error"]


def test_a_server_with_too_many_waiting_requests_says_so(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "MOST_WAITING", 0)
    assert Client(port).predict(nodes=["a-07"]) == (503, {"error": "too many requests are waiting: try again later."})


def test_a_failure_is_told_to_everyone_who_waits(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = fastgtn.load_run(run_folder)
    with served(run) as other:
        monkeypatch.setattr(type(run.own), "representations_of", lambda *_: 1 / 0)
        status, answer = Client(other).predict(nodes=["a-07"])
        assert (status, answer["error"]) == (500, "the server failed; its log has the reason.")
        monkeypatch.undo()
        assert Client(other).predict(nodes=["a-07"])[0] == 200


def test_the_command_serves_until_it_is_terminated(run_folder: Path, expected: dict[str, Row]) -> None:
    command = [sys.executable, "-m", "fastgtn", "serve", str(run_folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.match(r"serving http://127\.0\.0\.1:(\d+) · .*run/seed-0 \(Ctrl-C stops it\)", line)
    assert found, (line, process.communicate())
    assert Client(int(found[1])).predict(nodes=["a-07"]) == (200, {"predictions": [expected["a-07"]]})
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, "stopped all requests that had begun were answered\n", "")


def test_an_interrupt_is_a_normal_end(run_folder: Path) -> None:
    place, reached = listening("127.0.0.1", 0), []
    app = build_app(Scorer(fastgtn.load_run(run_folder)), host="127.0.0.1", max_nodes=5, max_bytes=1000)

    def ask_and_interrupt() -> None:
        reached.append(Client(place.getsockname()[1]).predict(nodes=["a-07"])[0])
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=ask_and_interrupt)
    before = signal.getsignal(signal.SIGINT)
    run_server(app, place, announce=lambda _: thread.start())
    thread.join()
    assert reached == [200]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_body_that_ends_early_is_no_failure(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(head)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
    assert Client(port).predict(nodes=["a-07"])[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_another_host_is_warned_of(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastgtn.serve.server.run_server", lambda *_, **__: None)
    answer = CliRunner().invoke(commands, ["serve", str(run_folder), "--host", "0.0.0.0", "--port", "0"])
    assert answer.exit_code == 0, answer.output
    assert "warning: everyone who can reach 0.0.0.0 can use this server" in answer.stderr
    answer = CliRunner().invoke(commands, ["serve", str(run_folder), "--port", "0"])
    assert "warning" not in answer.stderr


def test_what_cannot_be_served_is_refused(run_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(InputError, match=r"cannot listen on .* --port"),
    ):
        listening("127.0.0.1", taken.getsockname()[1])
    monkeypatch.setattr("fastgtn.cli.scoring.serve.find_spec", lambda _: None)
    answer = CliRunner().invoke(commands, ["serve", str(run_folder)])
    assert "needs starlette and uvicorn: run pip install 'fastgtn[serve]'" in str(answer.exception)
    (tmp_path / "link.json").write_text("{}")
    answer = CliRunner().invoke(commands, ["serve", str(tmp_path)])
    assert "is a model of links" in str(answer.exception)


def test_the_requests_of_the_page_are_answered(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph, task = tables.build(root / "examples" / "own_graph" / "graph.toml")
    page = (root / "docs" / "serving.md").read_text()
    sent = [json.loads(text) for text in re.findall(r"-d '(\{.*\})'", page)]
    sent += [json.loads(text) for text in re.findall(r'```json\n(\{"new".*?)```', page, re.DOTALL)]
    assert len(sent) == 2
    run = fastgtn.load_run(fastgtn.fit(graph, task, quick()).save(tmp_path / "run"))
    with served(run) as port:
        for body in sent:
            status, answer = Client(port).predict(**body)
            assert status == 200, answer
            assert len(answer["predictions"]) == len(body.get("nodes", body.get("new")))


def test_addresses_of_this_machine_are_known() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.8.9.1", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "192.168.0.2", "example.org"]))
