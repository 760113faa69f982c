"""The server: damaged requests over a real connection, and signals at random moments."""

import http.client
import json
import select
import signal
import socket
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
from faults.commands import Command, sha
from faults.doors import damaged
from faults.processes import ABORTED, CLEAN, Process, Trouble, start
from http_client import served
from ports import free_port

from fastgtn.runs import load_run

HEAD = (
    b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n"
)
SIGNALS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}
# before the server listens, signals end it as any program; while it listens, they are a request to stop
ENDS = {"kill -9": (-9,), "SIGTERM": (CLEAN, -15), "Ctrl-C": (CLEAN, *ABORTED, -2)}


class Requests:
    """Sends one damaged request for each attempt; the server must answer it or hang up, and never fail."""

    def __init__(self, run: Path) -> None:
        self.run, self.port, self.body = run, 0, good_body(run)

    def __call__(self, random: Random, _folder: Path) -> None:
        good = _request(self.body)
        if not self.port:
            self.server = served(load_run(self.run))  # it ends with this process
            self.port = self.server.__enter__()
            if self._send(good, patience=60) != 200:
                raise Trouble("a good request is refused")
        text = _request(damaged(self.body, random)) if random.random() < 0.6 else damaged(good, random)
        status = self._send(text)
        if status >= 500 and status != 501:
            raise Trouble(f"the server answers {status} to {text!r}")
        if random.random() < 0.02 and self._send(good, patience=60) != 200:
            raise Trouble(f"a good request is refused after {text!r}")

    def _send(self, text: bytes, patience: float = 0.05) -> int:
        """The status of the answer; 0 if the server hung up without one."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            answer = b""
            with suppress(ConnectionError, BrokenPipeError):
                connection.sendall(text)
                if not select.select([connection], [], [], patience)[0]:
                    connection.shutdown(socket.SHUT_WR)  # the server waits for the rest of a request: hang up
                while part := connection.recv(1 << 16):
                    answer += part
        words = answer.split(b" ", 2)
        return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


class ServeFaults:
    """Starts the server on a finished run, and ends it with signals."""

    def __init__(self, folder: Path) -> None:
        self.run = folder / "inputs" / "run"
        self.command = Command("serve", lambda _, __: [], self.results, self.results)
        self.counts: Counter[str] = Counter()
        self.harm: Counter[str] = Counter()
        self.body = good_body(self.run)
        started = time.monotonic()
        self.files = self.results(folder)
        self.expected = self._asked()
        if "predictions" not in self.expected:
            raise Trouble(f"a good request is refused: {self.expected}")
        self.seconds = time.monotonic() - started

    def results(self, _: Path) -> dict[str, str]:
        """Hashes of all files of the run, which the server only reads."""
        paths = sorted(path for path in self.run.rglob("*") if path.is_file())
        return {str(path.relative_to(self.run)): sha(path.read_bytes()) for path in paths}

    def interrupt(self, random: Random) -> None:
        """One signal; then the files are the same, and the next server gives the same answers."""
        name = random.choice(list(SIGNALS))
        process = self._start(free_port())
        self.counts[name] += process.signal(SIGNALS[name], after=random.random() * self.seconds)
        process.end().require(*ENDS[name], fault=f"{name} to serve")
        if self.results(self.run) != self.files:
            self.harm["lost results"] += 1
            raise Trouble(f"{name} to serve changes the run")
        started = time.monotonic()
        answer = self._asked()
        self.seconds = time.monotonic() - started
        if answer != self.expected:
            self.harm["differing files"] += 1
            raise Trouble(f"after {name}, serve gives other answers")

    def _asked(self) -> Any:
        """The answer of a server to one request."""
        port = free_port()
        process = self._start(port)
        answer = None
        while answer is None and not process.has_ended:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            with suppress(OSError):
                connection.request("POST", "/predict", self.body, {"Content-Type": "application/json"})
                answer = json.loads(connection.getresponse().read())
            connection.close()
            time.sleep(0.02)
        process.signal(signal.SIGTERM, after=0)
        process.end().require(CLEAN, fault="SIGTERM to a server that answers")
        return answer

    def _start(self, port: int) -> Process:
        return start(["serve", str(self.run), "--port", str(port)])


def good_body(run: Path) -> bytes:
    """The body of a request for two nodes of the run."""
    file = pq.ParquetFile(run / "seed-0" / "predictions.parquet", pre_buffer=False)  # this process starts no thread
    table = file.read(columns=["node"], use_threads=False)
    return json.dumps({"nodes": table["node"].to_pylist()[:2], "embeddings": True}).encode()


def _request(body: bytes) -> bytes:
    return HEAD % len(body) + body
