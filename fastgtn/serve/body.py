"""Requests: their size is limited, and their content is checked before anything is computed."""

import json
from typing import Any

from pydantic import Field, ValidationError
from starlette.requests import Request

from fastgtn.errors import InputError
from fastgtn.options import Section
from fastgtn.runs.scoring.new.request import NewNode, mistake


class TooLargeError(InputError):
    """The body or the number of nodes is above a limit."""


class PredictBody(Section):
    """The body of /predict.

    Args:
        nodes: Ids or names of nodes of the stored graph.
        new: Nodes that are not in the graph, with their features and edges.
        embeddings: Whether the answers contain the representations before the classifier's head.
    """

    nodes: list[str | int] = Field(default_factory=list)
    new: list[NewNode] = Field(default_factory=list)
    embeddings: bool = False

    @property
    def ids(self) -> list[str]:
        return [str(node) for node in self.nodes]


async def read_body(request: Request, *, max_bytes: int, max_nodes: int) -> PredictBody:
    """The checked body of a request."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise InputError(f'the body must be JSON, sent as application/json, but its type is "{kind}".')
    body = parsed(await _limited(request, max_bytes))
    count = len(body.nodes) + len(body.new)
    if not count:
        raise InputError('the request has no nodes: give ids, such as {"nodes": ["a-17"]}, or new nodes under "new".')
    if count > max_nodes:
        raise TooLargeError(f"the request has {count:,} nodes; at most {max_nodes:,} are allowed.")
    return body


def parsed(content: bytes) -> PredictBody:
    """From JSON; unknown keys, other types and numbers such as NaN are refused."""
    try:
        values = json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body cannot be read as JSON: {' '.join(str(error).split())}.") from None
    try:
        return PredictBody.model_validate(values)
    except ValidationError as error:
        raise InputError(mistake(error)) from None


async def _limited(request: Request, max_bytes: int) -> bytes:
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > max_bytes:
            raise TooLargeError(f"the body is larger than {max_bytes:,} bytes.")
    return bytes(content)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")
