"""The hops of a model over a graph: all rows, or only the rows that the wanted nodes depend on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from fastgtn.relations.checks import check_nodes
from fastgtn.relations.operator import Operator


@dataclass(frozen=True, eq=False)
class Hops:
    """K linear maps in product order: the first computes the targets, the last reads the inputs.

    With wanted rows, hop k computes exactly the rows that hop k-1 reads, nothing is sampled. Rows are
    numbered so that those of hop k-1 come first in hop k: the targets are the first rows everywhere.
    """

    operators: tuple[Operator, ...]
    inputs: Tensor | None  # the nodes whose features are read, in this order; None for all nodes

    @staticmethod
    def full(operator: Operator, count: int) -> Hops:
        """Every row in every hop."""
        return Hops((operator,) * count, None)

    @staticmethod
    def toward(operator: Operator, count: int, rows: Tensor) -> Hops:
        """Only what the given rows need, hop by hop outwards."""
        check_nodes(rows, operator.num_rows)
        operators: list[Operator] = []
        nodes = rows
        for _ in range(count):
            hop, nodes = operator.select_rows(nodes)
            operators.append(hop)
        return Hops(tuple(operators), nodes)

    def __len__(self) -> int:
        return len(self.operators)

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.operators)

    def __getitem__(self, part: slice) -> Hops:
        return Hops(self.operators[part], self.inputs)

    @property
    def num_targets(self) -> int:
        return self.operators[0].num_rows

    @property
    def num_inputs(self) -> int:
        return self.operators[-1].num_cols

    def __repr__(self) -> str:
        rows = " ← ".join(f"{n:,}" for n in [self.num_targets, *(hop.num_cols for hop in self)])
        return f"Hops({len(self)} hops, rows {rows})"
