"""Edges of several relations in one CSR, cut into (row, relation) segments: the layout the kernels read."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastgtn.relations.kernels.compile import kernel
from fastgtn.relations.layout.valid import check_keys, check_segments

# Rows are cut into chunks of about this much work (edges + rows). Sums that cross rows are kept per chunk.
_CHUNK_WORK = 4096


@dataclass(frozen=True, eq=False)
class Segments:
    """The positions of the edges. Weights are stored separately, so that they can change or have a gradient.

    Row i owns the segments ``row_ptr[i] … row_ptr[i+1]``; segment s holds the edges ``seg_ptr[s] …
    seg_ptr[s+1]`` of relation ``relation[s]``. Within a row, relations and then columns are in order.
    """

    row_ptr: Tensor  # int64 [R + 1]
    relation: Tensor  # int32 [S]
    seg_ptr: Tensor  # int64 [S + 1]
    col: Tensor  # int32 [E]
    num_cols: int
    num_relations: int

    @staticmethod
    def build(
        rows: Tensor, cols: Tensor, relation: Tensor, *, shape: tuple[int, int], num_relations: int
    ) -> "tuple[Segments, Tensor]":
        """Sort edges into segments; also returns the permutation for their weights."""
        for keys, count, name in ((rows, shape[0], "rows"), (cols, shape[1], "cols"), (relation, num_relations, "t")):
            check_keys(keys, count, name)
        r, c, t = (v.cpu().numpy() for v in (rows, cols, relation))
        order = sort_by(c, shape[1])  # least significant key first: each pass keeps the order of the last
        order = order[sort_by(t[order], num_relations)]
        order = order[sort_by(r[order], shape[0])]
        return Segments._cut(r[order], c[order], t[order], shape, num_relations), torch.from_numpy(order)

    @staticmethod
    def _cut(
        rows: np.ndarray, cols: np.ndarray, relation: np.ndarray, shape: tuple[int, int], num_relations: int
    ) -> "Segments":
        starts = np.flatnonzero(_changes(rows) | _changes(relation))
        row_ptr = np.searchsorted(rows[starts], np.arange(shape[0] + 1))
        return Segments(
            row_ptr=torch.from_numpy(row_ptr.astype(np.int64)),
            relation=torch.from_numpy(relation[starts].astype(np.int32)),
            seg_ptr=torch.from_numpy(np.append(starts, len(rows)).astype(np.int64)),
            col=torch.from_numpy(cols.astype(np.int32)),
            num_cols=shape[1],
            num_relations=num_relations,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy or pickle contains only the fields; derived values are computed and checked again."""
        fields = (self.row_ptr, self.relation, self.seg_ptr, self.col, self.num_cols, self.num_relations)
        return Segments, fields

    def check(self) -> None:
        """Refuse damaged index arrays. The kernels call this before they run; each object is checked once."""
        if "_is_checked" not in self.__dict__:
            check_segments(self)
            self.__dict__["_is_checked"] = True

    @property
    def num_rows(self) -> int:
        return self.row_ptr.numel() - 1

    @property
    def num_edges(self) -> int:
        return self.col.numel()

    @cached_property
    def segment_rows(self) -> Tensor:
        """The row of each segment, int64 [S]."""
        return torch.repeat_interleave(torch.arange(self.num_rows, device=self.col.device), self.row_ptr.diff())

    @cached_property
    def edge_segments(self) -> Tensor:
        """The segment of each edge, int64 [E]."""
        return torch.repeat_interleave(torch.arange(self.relation.numel(), device=self.col.device), self.seg_ptr.diff())

    def edge_rows(self) -> Tensor:
        """The row of each edge, int64 [E]."""
        return self.segment_rows[self.edge_segments]

    def edge_relations(self) -> Tensor:
        """The relation of each edge, int64 [E]."""
        return self.relation.long()[self.edge_segments]

    @cached_property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Row pointers, relations, segment pointers and columns for the kernels: the same memory, asked for once."""
        return tuple(v.numpy() for v in (self.row_ptr, self.relation, self.seg_ptr, self.col))

    @cached_property
    def edge_ptr(self) -> np.ndarray:
        """Row i owns the edges ``edge_ptr[i] … edge_ptr[i+1]``, int64 [R + 1]."""
        return self.seg_ptr[self.row_ptr].cpu().numpy()

    @cached_property
    def relation_of_edge(self) -> np.ndarray:
        """The same as :meth:`edge_relations` for the kernels, in one byte if that is enough."""
        relation = self.relation.cpu().numpy().astype(np.uint8 if self.num_relations <= 256 else np.int32)
        return np.repeat(relation, np.diff(self.seg_ptr.cpu().numpy()))

    @cached_property
    def transposed(self) -> "tuple[Segments, Tensor]":
        """The same edges by column, and for each of them its place here. Built once, when first needed."""
        segments, order = Segments.build(
            self.col.long(),
            self.edge_rows(),
            self.edge_relations(),
            shape=(self.num_cols, self.num_rows),
            num_relations=self.num_relations,
        )
        device = self.col.device
        return segments.to(device), order.to(device)

    @cached_property
    def chunks(self) -> np.ndarray:
        """Row boundaries of equal work; they depend on the graph alone."""
        return equal_chunks(self.edge_ptr)

    def degrees(self, values: Tensor) -> Tensor:
        """The sum of the values of each segment, float64 [S]."""
        sums = torch.zeros(self.relation.numel(), dtype=torch.float64, device=values.device)
        return sums.index_add(0, self.edge_segments, values.double())

    def select_rows(self, rows: Tensor) -> "tuple[Segments, Tensor]":
        """Keep the given rows, in the given order; also returns the edges that were kept."""
        seg_counts = self.row_ptr[rows + 1] - self.row_ptr[rows]  # not diff(), which would read the whole graph
        segments = spans(self.row_ptr[rows], seg_counts)
        edge_counts = self.seg_ptr[segments + 1] - self.seg_ptr[segments]
        edges = spans(self.seg_ptr[segments], edge_counts)
        kept = Segments(
            row_ptr=_offsets(seg_counts),
            relation=self.relation[segments],
            seg_ptr=_offsets(edge_counts),
            col=self.col[edges],
            num_cols=self.num_cols,
            num_relations=self.num_relations,
        )
        return kept, edges

    def keep(self, kept: Tensor, num_cols: int) -> "Segments":
        """Only the edges that a mask marks; segments without edges go."""
        rows, cols, relation = (v[kept].cpu().numpy() for v in (self.edge_rows(), self.col, self.edge_relations()))
        return Segments._cut(rows, cols, relation, (self.num_rows, num_cols), self.num_relations).to(kept.device)

    def relabelled(self, col: Tensor, num_cols: int) -> "Segments":
        """The same segments with other column numbers (the order within a segment stays as it was)."""
        return Segments(self.row_ptr, self.relation, self.seg_ptr, col, num_cols, self.num_relations)

    def to(self, device: torch.device | str) -> "Segments":
        if self.col.device == torch.device(device):
            return self
        row_ptr, relation, seg_ptr, col = (v.to(device) for v in (self.row_ptr, self.relation, self.seg_ptr, self.col))
        return Segments(row_ptr, relation, seg_ptr, col, self.num_cols, self.num_relations)


def equal_chunks(ptr: np.ndarray) -> np.ndarray:
    """Row boundaries of about equal work (edges + rows), int64 [number of chunks + 1], for the pointers of rows."""
    num_rows = len(ptr) - 1
    work = ptr + np.arange(num_rows + 1)
    count = max(1, min(num_rows, int(work[-1]) // _CHUNK_WORK))
    cuts = np.searchsorted(work, np.linspace(0, work[-1], count + 1))
    cuts[0], cuts[-1] = 0, num_rows
    return np.unique(cuts) if num_rows else np.zeros(1, np.int64)


def spans(starts: Tensor, counts: Tensor) -> Tensor:
    """Concatenate the ranges ``starts[i] … starts[i] + counts[i]``."""
    shift = torch.repeat_interleave(starts - _offsets(counts)[:-1], counts)
    return shift + torch.arange(shift.numel(), device=starts.device)


def _offsets(counts: Tensor) -> Tensor:
    zero = torch.zeros(1, dtype=torch.int64, device=counts.device)
    return torch.cat([zero, counts.cumsum(0)])


def _changes(keys: np.ndarray) -> np.ndarray:
    """True where a key differs from the previous one; the first is always True."""
    return np.concatenate([np.ones(min(1, len(keys)), bool), keys[1:] != keys[:-1]])


def sort_by(keys: np.ndarray, num_keys: int) -> np.ndarray:
    """The stable order that sorts small integers."""
    if num_keys == 1:
        return np.arange(len(keys))
    order: np.ndarray = _counting_sort(keys, num_keys)
    return order


@kernel
def _counting_sort(keys: np.ndarray, num_keys: int) -> np.ndarray:
    """The stable order that sorts small integers: one pass to count, one to place."""
    place = np.zeros(num_keys + 1, np.int64)
    for key in keys:
        place[key + 1] += 1
    for key in range(num_keys):
        place[key + 1] += place[key]
    order = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        order[place[keys[i]]] = i
        place[keys[i]] += 1
    return order
