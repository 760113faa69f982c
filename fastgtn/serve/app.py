"""The routes of the server: /health and /predict. Every refusal is JSON with a reason."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from fastgtn.errors import InputError
from fastgtn.serve.batching import BusyError, MicroBatches, Row
from fastgtn.serve.body import TooLargeError, read_body
from fastgtn.serve.scorer import EMBEDDING, Scorer

BATCH_NODES = 4_096  # nodes of several requests that are computed together


def build_app(
    scorer: Scorer, *, host: str = "127.0.0.1", max_nodes: int = 1_000, max_bytes: int = 1_000_000
) -> Starlette:
    """The application of one run.

    Args:
        host: Where it will listen. On this machine alone, requests under other host names are refused, so that a page
            of another site cannot read answers through a name that points here.
    """
    batches = MicroBatches(scorer.rows, most_nodes=BATCH_NODES)
    facts = scorer.facts()

    async def health(request: Request) -> JSONResponse:
        _check_host(request, host)
        return JSONResponse({"status": "ok", **facts, "requests": batches.requests, "batches": batches.batches})

    async def predict(request: Request) -> JSONResponse:
        _check_host(request, host)
        body = await read_body(request, max_bytes=max_bytes, max_nodes=max_nodes)
        numbers = scorer.names.numbers(body.ids).tolist()
        rows = await batches.answer(numbers) if numbers else []
        new, notes = await batches.alone(lambda: scorer.new_rows(body.new)) if body.new else ([], [])
        answers = [_answer(row, with_embedding=body.embeddings) for row in [*rows, *new]]
        return JSONResponse({"predictions": answers} | ({"notes": notes} if notes else {}))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        work = asyncio.create_task(batches.run())
        yield
        work.cancel()
        batches.pool.shutdown()

    routes = [Route("/health", health), Route("/predict", predict, methods=["POST"])]
    handlers = {
        InputError: _refused,
        HTTPException: _no_route,
        BusyError: _busy,
        ClientDisconnect: _gone,
        Exception: _failed,
    }
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)  # type: ignore[arg-type]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _check_host(request: Request, host: str) -> None:
    name = request.url.hostname or ""
    if is_loopback(host) and not is_loopback(name):
        raise InputError(f'the server answers requests for localhost only, but got the host name "{name}".')


def _answer(row: Row, *, with_embedding: bool) -> Row:
    answer = {key: value for key, value in row.items() if key != EMBEDDING}
    return answer | ({EMBEDDING: row[EMBEDDING].tolist()} if with_embedding else {})


async def _refused(_: Request, error: InputError) -> JSONResponse:
    status = 413 if isinstance(error, TooLargeError) else 400
    return JSONResponse({"error": " ".join(str(error).split())}, status)


async def _no_route(request: Request, error: HTTPException) -> JSONResponse:
    reason = f"{request.method} {request.url.path}: {error.detail}. The routes are GET /health and POST /predict."
    return JSONResponse({"error": reason}, error.status_code, headers=error.headers)


async def _gone(_: Request, __: ClientDisconnect) -> JSONResponse:
    return JSONResponse({"error": "the connection was closed before the body was complete."}, 400)


async def _busy(_: Request, __: BusyError) -> JSONResponse:
    return JSONResponse({"error": "too many requests are waiting: try again later."}, 503, headers={"Retry-After": "1"})


async def _failed(_: Request, __: Exception) -> JSONResponse:
    return JSONResponse({"error": "the server failed; its log has the reason."}, 500)
