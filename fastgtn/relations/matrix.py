"""A view of one relation of a stack as a matrix."""

from dataclasses import dataclass

from torch import Tensor

from fastgtn.relations import products
from fastgtn.relations.operator import Operator
from fastgtn.relations.schema import Relation


@dataclass(frozen=True, eq=False)
class RelationMatrix:
    """One relation of a stack, seen as a matrix."""

    relation: Relation
    operator: Operator
    position: int

    def __matmul__(self, h: Tensor) -> Tensor:
        """Multiply features [N, d] from the left."""
        one_hot = h.new_zeros(1, self.operator.num_relations)
        one_hot[0, self.position] = 1
        return self.operator.apply(h[:, None], one_hot)[:, 0]

    def coordinates(self) -> products.Coordinates:
        """Rows, columns and values, with the implicit self-loops written out."""
        return products.coordinates(self.operator, self.position)

    def to_dense(self) -> Tensor:
        rows, cols, values = self.coordinates()
        dense = values.new_zeros(self.operator.num_rows, self.operator.num_cols)
        return dense.index_put((rows, cols), values)
