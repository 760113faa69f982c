"""A real client and a server in a thread, for tests and nothing else."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastgtn.runs import Result
from fastgtn.serve.app import build_app
from fastgtn.serve.scorer import Scorer
from fastgtn.serve.server import listening, make_server


class Client:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
        self.connection.request(method, path, body, {"Content-Type": "application/json"} | headers)
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())

    def predict(self, **values: Any) -> tuple[int, Any]:
        return self.send("POST", "/predict", json.dumps(values).encode())


@contextmanager
def served(run: Result, *, max_nodes: int = 50, max_bytes: int = 20_000) -> Iterator[int]:
    """The port of a running server."""
    place = listening("127.0.0.1", 0)
    app = build_app(Scorer(run), host="127.0.0.1", max_nodes=max_nodes, max_bytes=max_bytes)
    server = make_server(app)
    thread = threading.Thread(target=lambda: server.run(sockets=[place]), daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield place.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        place.close()
