"""Ports for servers whose port must be known before they start."""

import itertools
import os
import socket

FIRST, COUNT = 10_000, 20_000  # below the ports that the system gives to connections and to servers that ask for any
_turns = itertools.count()


def free_port() -> int:
    """A port on which nobody listens, and which no other process of the tests is likely to choose at the same time."""
    while True:
        port = FIRST + (97 * os.getpid() + next(_turns)) % COUNT
        with socket.socket() as place:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                place.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
