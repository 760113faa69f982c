"""The features of nodes: one matrix for all, one per type, or none; dense or sparse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.errors import InputError
from fastgtn.nn.inputs.columns import Scaling
from fastgtn.nn.inputs.reorder import inverse
from fastgtn.relations.kernels.buffers import empty_tensor
from fastgtn.relations.kernels.dropout import drop
from fastgtn.relations.layout.segments import Segments
from fastgtn.relations.operator import Edges, Operator

LOOKED_AT = 1 << 24  # numbers of a feature matrix that are looked through for NaN
FEW = 32  # a selection that is this many times smaller than the graph does not look at all nodes
ROWS_AT_ONCE = 1024  # of stored features, while they are copied: what is between stays in the cache


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Bag-of-words features: the edges from words to nodes. X·W is a hop along them, so it runs in the same kernel."""

    operator: Operator

    @staticmethod
    def from_torch(x: Tensor) -> SparseMatrix:
        """From a torch sparse matrix of any layout."""
        coo = x.detach().cpu().to_sparse_coo().coalesce()
        rows, cols = coo.indices()
        segments, order = Segments.build(
            rows, cols, torch.zeros_like(rows), shape=(x.size(0), x.size(1)), num_relations=1
        )
        stored = Operator(x.size(0), x.size(1), 1, (Edges(segments, coo.values()[order]),), None)
        return SparseMatrix(stored.to(x.device))

    @property
    def shape(self) -> tuple[int, int]:
        return self.operator.num_rows, self.operator.num_cols

    @property
    def values(self) -> Tensor:
        return self.operator.edges[0].values

    def with_values(self, values: Tensor) -> SparseMatrix:
        return SparseMatrix(replace(self.operator, edges=(replace(self.operator.edges[0], values=values),)))

    def __matmul__(self, weight: Tensor) -> Tensor:
        # squeezed: the backward pass of [:, 0] would fill a whole table with zeros first
        return self.operator.apply(weight[:, None], weight.new_ones(1, 1)).squeeze(1)

    def select(self, rows: Tensor) -> SparseMatrix:
        segments, places = self.operator.edges[0].segments.select_rows(rows)
        edges = Edges(segments, self.values[places])
        return SparseMatrix(replace(self.operator, num_rows=rows.numel(), edges=(edges,)))

    def dropout(self, p: float) -> SparseMatrix:
        return self.with_values(drop(self.values, p))

    def to(self, target: torch.device | str | torch.dtype) -> SparseMatrix:
        return SparseMatrix(self.operator.to(target))


Matrix = Tensor | SparseMatrix


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """The features of some nodes that share one weight matrix; ``None`` where they have none."""

    key: str  # the node type, or "shared"
    places: Tensor | None  # which rows these nodes are; None for all of them
    nodes: Tensor | None  # their numbers within the block; None for all, in order
    matrix: Matrix | None
    width: int  # number of features; without features, the number of nodes that own an embedding
    is_dropped: bool = True  # whether dropout of the features applies
    scaling: Scaling = "none"  # what was done to rows, or what models do to columns


class Features:
    """The input of a model over all nodes of a graph (or over some, after `select`).

    Build it with :meth:`from_hetero` or :meth:`of`; models also accept a plain tensor and wrap it.
    """

    def __init__(self, blocks: tuple[FeatureBlock, ...], num_rows: int, *, in_order: bool = True) -> None:
        self.blocks = blocks
        self.num_rows = num_rows
        self._head: Features | None = None
        # which row of the blocks, put one below the other, each node is; None where they are in order already
        places = [block.places for block in blocks if block.places is not None]
        self.order = None if in_order or not places else torch.cat(places).argsort()

    @staticmethod
    def of(x: Tensor | Features) -> Features:
        """One feature matrix for all nodes, dense or sparse."""
        if isinstance(x, Features):
            return x
        matrix = _checked(x, "the feature matrix")
        return Features((FeatureBlock("shared", None, None, matrix, matrix.shape[1]),), matrix.shape[0])

    @staticmethod
    def from_hetero(data: HeteroData, *, shared: bool | None = None) -> Features:
        """From ``data[type].x``, dense or sparse; a type without `x` gets learned embeddings.

        Args:
            shared: Whether all types live in one feature space and share one weight matrix. By default what
                ``data.shared_features`` says, else no.
        """
        matrices = {t: _checked(data[t].x, f'"{t}"') if "x" in data[t] else None for t in data.node_types}
        counts = {t: int(data[t].num_nodes) for t in data.node_types}
        for node_type, matrix in matrices.items():
            if matrix is not None and matrix.shape[0] != counts[node_type]:
                raise InputError(
                    f'"{node_type}" has {counts[node_type]} nodes but {matrix.shape[0]} feature rows. '
                    "There must be one row per node."
                )
        if shared is None:
            shared = bool(data.get("shared_features", False)) if "shared_features" in data else False
        return _shared(matrices) if shared else _per_type(matrices, counts)

    @staticmethod
    def like(widths: Mapping[str, int], embedded: Mapping[str, int]) -> Features:
        """No rows, but the blocks that a model is built for."""
        none = torch.empty(0, dtype=torch.int64)
        blocks = [FeatureBlock(key, none, none, torch.empty(0, max(width, 0)), width) for key, width in widths.items()]
        blocks += [FeatureBlock(key, none, none, None, count) for key, count in embedded.items()]
        return Features(tuple(blocks), 0)

    @property
    def widths(self) -> dict[str, int]:
        """Features per block: what a model must be built for."""
        return {block.key: block.width for block in self.blocks if block.matrix is not None}

    @property
    def embedded(self) -> dict[str, int]:
        """Blocks without features, and how many embeddings each needs."""
        return {block.key: block.width for block in self.blocks if block.matrix is None}

    @cached_property
    def order_back(self) -> Tensor:
        """The permutation that undoes the order, for gradients."""
        assert self.order is not None
        with torch.inference_mode(False):  # what is kept may be part of a training later
            return inverse(self.order)

    def select(self, nodes: Tensor | None) -> Features:
        """The features of some nodes, in the given order; None keeps all."""
        if nodes is None:
            return self
        blocks = []
        for block in self.blocks:
            where, local = _located(block, nodes, self.num_rows)
            matrix = None if block.matrix is None else selected(block.matrix, local)
            kept = local if block.nodes is None else block.nodes[local]
            blocks.append(replace(block, places=where, nodes=kept, matrix=matrix))
        return Features(tuple(blocks), nodes.numel(), in_order=False)

    def head(self, count: int) -> Features:
        """The features of the first nodes. They are kept, because every step of a training asks for the same ones."""
        if count == self.num_rows:
            return self
        if self._head is None or self._head.num_rows != count:
            self._head = self.select(torch.arange(count, device=self.device))
        return self._head

    @property
    def requires_grad(self) -> bool:
        """Whether some of the features are trained."""
        matrices = [block.matrix for block in self.blocks if block.matrix is not None]
        return any(m.values.requires_grad if isinstance(m, SparseMatrix) else m.requires_grad for m in matrices)

    @property
    def device(self) -> torch.device:
        """Where the features are; of nodes without any, where their numbers are."""
        matrices = [block.matrix for block in self.blocks if block.matrix is not None]
        values = [matrix.values if isinstance(matrix, SparseMatrix) else matrix for matrix in matrices]
        numbers = [i for block in self.blocks for i in (block.places, block.nodes) if i is not None]
        return next((tensor.device for tensor in (*values, *numbers)), torch.device("cpu"))

    def map(self, change: Mapping[str, Matrix]) -> Features:
        """The same nodes with other matrices for some blocks."""
        blocks = tuple(replace(b, matrix=change.get(b.key, b.matrix)) for b in self.blocks)
        return Features(blocks, self.num_rows, in_order=self.order is None)

    def dropped_from(self, width: int) -> Features:
        """The same features; dropout skips matrices with fewer columns than this, which it would spoil."""
        blocks = tuple(replace(b, is_dropped=b.width >= width) for b in self.blocks)
        return Features(blocks, self.num_rows, in_order=self.order is None)

    def with_scaling(self, scaling: Mapping[str, Scaling]) -> Features:
        """The same features; models read blocks that are scaled by column as deviations from column means."""
        blocks = tuple(replace(b, scaling=scaling.get(b.key, b.scaling)) for b in self.blocks)
        return Features(blocks, self.num_rows, in_order=self.order is None)

    def to(self, target: torch.device | str | torch.dtype) -> Features:
        blocks = []
        for block in self.blocks:
            indices = [
                i if i is None or isinstance(target, torch.dtype) else i.to(target) for i in (block.places, block.nodes)
            ]
            matrix = None if block.matrix is None else block.matrix.to(target)
            blocks.append(replace(block, places=indices[0], nodes=indices[1], matrix=matrix))
        return Features(tuple(blocks), self.num_rows, in_order=self.order is None)

    def __repr__(self) -> str:
        words = []
        for block in self.blocks:
            kind = (
                "embedded" if block.matrix is None else "sparse" if isinstance(block.matrix, SparseMatrix) else "dense"
            )
            words.append(f"{block.key} {block.width:,} {kind}")
        return f"Features({self.num_rows:,} rows: {', '.join(words)})"


def stacked(upper: Matrix, lower: Matrix) -> Matrix:
    """The rows of one matrix below those of another; sparse if the upper one is."""
    if isinstance(upper, Tensor):
        return torch.cat([upper, lower if isinstance(lower, Tensor) else _to_coo(lower).to_dense()])
    return SparseMatrix.from_torch(torch.cat([_to_coo(upper), _to_coo(lower)]))


def selected(matrix: Matrix, rows: Tensor) -> Matrix:
    """Some rows of a matrix."""
    return matrix.select(rows) if isinstance(matrix, SparseMatrix) else _rows(matrix, rows)


def _located(block: FeatureBlock, nodes: Tensor, num_rows: int) -> tuple[Tensor | None, Tensor]:
    """Where the block's nodes stand in a selection, and which of its rows they are."""
    if block.places is None:
        return None, nodes
    if FEW * nodes.numel() < num_rows:  # places are in order, so a few nodes are found without a table of all
        local = torch.searchsorted(block.places, nodes).clamp(max=max(block.places.numel() - 1, 0))
        where = (block.places[local] == nodes).nonzero()[:, 0] if block.places.numel() else local[:0]
        return where, local[where]
    row = torch.full((num_rows,), -1, dtype=torch.int64, device=nodes.device)
    row[block.places] = torch.arange(block.places.numel(), device=nodes.device)
    local = row[nodes]
    where = (local >= 0).nonzero()[:, 0]
    return where, local[where]


def _shared(matrices: dict[str, Matrix | None]) -> Features:
    present = {t: m for t, m in matrices.items() if m is not None}
    widths = {m.shape[1] for m in present.values()}
    if len(present) != len(matrices) or len(widths) != 1:
        listed = ", ".join(f"{t} {'none' if m is None else m.shape[1]}" for t, m in matrices.items())
        raise InputError(
            f"shared features need the same width for every node type, but got {listed}. Use shared=False."
        )
    dense = [m for m in present.values() if isinstance(m, Tensor)]
    if len(dense) == len(present):
        whole = _one_below_the_other(dense)
        return Features((FeatureBlock("shared", None, None, whole, whole.size(1)),), whole.size(0))
    return Features.of(torch.cat([_to_coo(m) for m in present.values()]))


def _one_below_the_other(parts: list[Tensor]) -> Tensor:
    """One matrix of all rows: no copy where the parts are neighbours in memory, as in an archive's mapped features."""
    first, width, end = parts[0], parts[0].size(1), parts[0].storage_offset()
    for part in parts:
        is_same = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr() and part.dtype == first.dtype
        if not is_same or part.storage_offset() != end or not part.is_contiguous() or part.requires_grad:
            return torch.cat(parts)
        end += part.numel()
    return first.as_strided((sum(part.size(0) for part in parts), width), (width, 1))


def _per_type(matrices: dict[str, Matrix | None], counts: dict[str, int]) -> Features:
    start, blocks = 0, []
    for node_type, matrix in matrices.items():
        places = torch.arange(start, start + counts[node_type])
        width = counts[node_type] if matrix is None else matrix.shape[1]
        blocks.append(FeatureBlock(node_type, places, None, matrix, width))
        start += counts[node_type]
    return Features(tuple(blocks), start)


def _to_coo(matrix: Matrix) -> Tensor:
    if isinstance(matrix, Tensor):
        return matrix.to_sparse_coo()
    segments = matrix.operator.edges[0].segments
    return torch.sparse_coo_tensor(
        torch.stack([segments.edge_rows(), segments.col.long()]), matrix.values, matrix.shape, check_invariants=False
    )


def _checked(x: Tensor | np.ndarray, name: str) -> Matrix:
    if not isinstance(x, Tensor) or x.dim() != 2:
        came = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise InputError(f"{name}: features must be a tensor [nodes, features], but got {came}.")
    if x.is_complex():
        raise InputError(f"{name}: features are complex numbers; give their real and imaginary parts as columns.")
    sparse = x.layout != torch.strided
    values = x.values() if x.layout == torch.sparse_csr else x.coalesce().values() if sparse else x
    if not torch.compiler.is_compiling() and not torch.isfinite(_some_rows(values)).all():
        raise InputError(f"{name}: features have NaN or infinite values. Clean or impute them first.")
    x = x if x.is_floating_point() else x.float()
    if not sparse:
        return x
    return SparseMatrix.from_torch(x.float() if x.dtype.itemsize < 4 else x)  # kernels do not read half precision


def _some_rows(values: Tensor) -> Tensor:
    """All rows, or a sample of a large matrix (which may be mapped from a file), so that the check is quick."""
    return values[:: 1 + values.numel() // LOOKED_AT]


def _rows(matrix: Tensor, rows: Tensor) -> Tensor:
    """Some rows. Features may be stored in half precision; nothing is computed in it."""
    dtype = torch.float32 if matrix.dtype == torch.float16 else matrix.dtype
    if matrix.requires_grad or matrix.device.type != "cpu" or dtype != torch.float32:
        return matrix[rows].to(dtype)
    # memory that is used again: page faults of new memory would take longer than the copying
    out = empty_tensor((len(rows), matrix.size(1)), torch.float32)
    for place, part in zip(out.split(ROWS_AT_ONCE), rows.split(ROWS_AT_ONCE), strict=True):
        place.copy_(matrix.index_select(0, part))
    return out
