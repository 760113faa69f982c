"""The hops of a model over a graph: all rows, or only the rows that the requested nodes depend on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations.checks import check_nodes
from fastgtn.relations.operator import Operator
from fastgtn.relations.schema import Relation


@dataclass(frozen=True, eq=False)
class Hops:
    """K linear maps in product order: the first computes the targets, the last reads the inputs.

    With requested rows, hop k computes exactly the rows that hop k-1 reads; nothing is sampled. Rows are
    numbered so that those of hop k-1 come first in hop k: the targets are the first rows everywhere.
    """

    relations: tuple[Relation, ...]
    operators: tuple[Operator, ...]
    inputs: Tensor | None  # the nodes whose features are read, in this order; None for all nodes
    all_columns: bool  # whether every hop reads all nodes, as non-local operations do

    @staticmethod
    def full(relations: tuple[Relation, ...], operator: Operator, count: int) -> Hops:
        """Every row in every hop."""
        return Hops(relations, (operator,) * count, None, all_columns=True)

    @staticmethod
    def toward(relations: tuple[Relation, ...], operator: Operator, count: int, rows: Tensor) -> Hops:
        """Only what the given rows need, hop by hop outwards."""
        check_nodes(rows, operator.num_rows)
        operators: list[Operator] = []
        nodes = rows
        for _ in range(count):
            hop, nodes = operator.select_rows(nodes)
            operators.append(hop)
        return Hops(relations, tuple(operators), nodes, all_columns=False)

    @staticmethod
    def over_all_nodes(relations: tuple[Relation, ...], operator: Operator, count: int, rows: Tensor) -> Hops:
        """For rows that depend on all nodes: the first hop computes them, the others everything, in its order."""
        check_nodes(rows, operator.num_rows)
        first, nodes = operator.select_rows(rows, all_columns=True)
        others = (operator.select_rows(nodes)[0],) * (count - 1) if count > 1 else ()
        return Hops(relations, (first, *others), nodes, all_columns=True)

    def __len__(self) -> int:
        return len(self.operators)

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.operators)

    def __getitem__(self, part: slice) -> Hops:
        return Hops(self.relations, self.operators[part], self.inputs, self.all_columns)

    @property
    def num_targets(self) -> int:
        return self.operators[0].num_rows

    @property
    def num_inputs(self) -> int:
        return self.operators[-1].num_cols

    @property
    def cost(self) -> int:
        """Stored numbers that one pass reads: edges and diagonal of every hop."""
        return sum(edges.segments.num_edges + hop.num_rows for hop in self for edges in hop.edges)

    def require_relations(self, relations: Sequence[Relation]) -> None:
        """Refuse to serve a model that was built for other relations."""
        if tuple(relations) == self.relations:
            return
        expected, here = [str(r) for r in relations], [str(r) for r in self.relations]
        missing, extra = [r for r in expected if r not in here], [r for r in here if r not in expected]
        difference = "; ".join(
            f"{word}: {', '.join(names)}" for word, names in (("missing", missing), ("not expected", extra)) if names
        )
        raise InputError(
            f"the model was built for the relations ({', '.join(expected)}), but the graph has ({', '.join(here)}): "
            f"{difference or 'the same in another order'}. Build both from graphs of one schema, with the same "
            "identity and reverse options."
        )

    def __repr__(self) -> str:
        rows = " ← ".join(f"{n:,}" for n in [self.num_targets, *(hop.num_cols for hop in self)])
        return f"Hops({len(self)} hops, rows {rows})"
