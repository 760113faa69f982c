"""Run the application with uvicorn until a signal ends it."""

import signal
import socket
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette

from fastgtn.errors import InputError

BACKLOG = 1024  # connections that wait to be accepted
GRACE_SECONDS = 10  # requests that are being answered when the server is stopped may take this long


def listening(host: str, port: int) -> socket.socket:
    """A socket that accepts connections, port 0 for any free one. A port that is taken is refused."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small packets at once only on sockets that name TCP; others delay answers by 40 ms
    place = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind((host, port))
        place.listen(BACKLOG)
        return place
    except (OSError, OverflowError) as error:
        place.close()
        raise InputError(f"cannot listen on {host} port {port} ({error}): choose another one with --port.") from None


def make_server(app: Starlette) -> uvicorn.Server:
    """A server without a log of requests."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ws="none",
    )
    return uvicorn.Server(config)


def run_server(app: Starlette, place: socket.socket, *, announce: Callable[[str], None]) -> None:
    """Answer requests until SIGINT or SIGTERM; requests that have begun are still answered.

    Args:
        announce: Called with the address when the server can be reached.
    """
    server = make_server(app)

    def stop(*_: object) -> None:
        server.should_exit = True

    # uvicorn raises a signal again after it has stopped: with these handlers that is a normal end
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        announce(address(place))
        server.run(sockets=[place])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def address(place: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = place.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
