"""The description of a new node, as a program sends it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fastgtn.errors import InputError
from fastgtn.options import Section

Id = str | int
BRANCHES = ("str", "int", "NewEdge")  # what pydantic adds to a place to say which type it tried
PLAIN = {
    "extra_forbidden": "there is no such key",
    "model_type": "an object is expected",
}  # what pydantic calls otherwise
Number = Annotated[float, Field(allow_inf_nan=False)]


class NewEdge(BaseModel):
    """An edge between a new node and a stored one. Further keys are columns of the edge table.

    Args:
        incoming: Where both ends have the type of the new node: the edge leads to the new node.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")

    node: Id
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    incoming: bool = False

    @property
    def columns(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class NewNode(Section):
    """A node of the target type.

    Args:
        features: Columns of the table, or the feature vector where the graph was not built from tables.
        edges: For each relation, the stored nodes at the other end.
    """

    id: Id
    features: dict[str, Any] | list[Number] | None = None
    edges: dict[str, list[Id | NewEdge]] = Field(default_factory=dict)

    def edges_of(self, relation: str) -> list[NewEdge]:
        """The edges of one relation, with all keys."""
        return [edge if isinstance(edge, NewEdge) else NewEdge(node=edge) for edge in self.edges[relation]]


def new_nodes(values: Iterable[Mapping[str, Any] | NewNode]) -> list[NewNode]:
    """Checked descriptions; each id may occur once."""
    try:
        nodes = [each if isinstance(each, NewNode) else NewNode.model_validate(dict(each)) for each in values]
    except ValidationError as error:
        raise InputError(f"new node: {mistake(error)}") from None
    if not nodes:
        raise InputError("there are no new nodes to score.")
    seen: set[str] = set()
    for node in nodes:
        if str(node.id) in seen:
            raise InputError(f'two new nodes have the id "{node.id}".')
        seen.add(str(node.id))
    return nodes


def mistake(error: ValidationError) -> str:
    """The place and the reason of the most specific mistake, in one line."""
    found = max(error.errors(), key=lambda each: len(each["loc"]))  # where a value may have several types, one per type
    place = [str(part) for part in found["loc"] if part not in BRANCHES and "[" not in str(part)]
    return f"{'.'.join(place) or 'the body'}: {PLAIN.get(found['type'], found['msg'])}."
