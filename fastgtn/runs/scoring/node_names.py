"""Find nodes by the user's ids and names."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError, nearest
from fastgtn.runs.schema import node_ids

FEW_NODES = 10_000  # the nearest name is searched among at most this many nodes
LISTED = 5  # unknown ids in a message
REPEATED = -1


class NodeNames:
    """The ids and names of all nodes of one type. Building it reads all of them, and a look-up reads none."""

    def __init__(self, graph: HeteroData, node_type: str) -> None:
        self.node_type = node_type
        ids = node_ids(graph, node_type).astype(str)
        self.labels = [ids.tolist()]
        if "node_name" in graph[node_type]:
            self.labels.append(np.asarray(graph[node_type].node_name).astype(str).tolist())
        self.places = [_places(known) for known in self.labels]

    def has(self, name: str) -> bool:
        """Whether it is an id or a name of a node."""
        return any(name in place for place in self.places)

    def number(self, wanted: str) -> int:
        """The number of a node by its id, or by its name if only one has it."""
        for place, known in zip(self.places, self.labels, strict=True):
            found = place.get(wanted)
            if found == REPEATED:
                same = [self.labels[0][number] for number, label in enumerate(known) if label == wanted]
                raise InputError(
                    f'{len(same):,} {self.node_type} nodes have the name "{wanted}": give the id of one of them, such '
                    f"as {', '.join(same[:LISTED])}."
                )
            if found is not None:
                return found
        few = [*self.labels[0], *self.labels[-1]] if len(self.labels[0]) <= FEW_NODES else []
        usual = f'use an id of the graph, such as "{self.labels[0][0]}" (fastgtn predict lists them).'
        hint = nearest(wanted, few) if few and len(few) < 30 else usual
        raise InputError(f'no {self.node_type} node "{wanted}"; {hint}')

    def numbers(self, wanted: Sequence[str]) -> Tensor:
        """The numbers of many nodes, in their order. All unknown ids are counted before the first is refused."""
        unknown = [name for name in wanted if not self.has(name)]
        if len(unknown) > 1:
            listed = ", ".join(f'"{name}"' for name in unknown[:LISTED])
            more = ", …" if len(unknown) > LISTED else ""
            raise InputError(
                f"{len(unknown):,} of {len(wanted):,} ids are not those of {self.node_type} nodes: {listed}{more}"
            )
        return torch.tensor([self.number(name) for name in wanted], dtype=torch.int64)


def _places(labels: list[str]) -> dict[str, int]:
    place = {name: number for number, name in enumerate(labels)}
    if len(place) < len(labels):
        seen: set[str] = set()
        for name in labels:
            if name in seen:
                place[name] = REPEATED
            seen.add(name)
    return place
