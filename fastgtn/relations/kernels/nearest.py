"""The n largest inner products of rows with all rows: exact, a tile at a time, never N × N."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations.kernels.compile import kernel, run_ranges
from fastgtn.relations.kernels.team import on_team

_TILE = 1024  # rows and columns of a tile: a few megabytes, read from the cache while it is still warm
_PART = 64  # rows or columns of a tile that one thread scans at a time
_STRIDE = 64  # products that are compared at once before any of them is looked at


def largest_products(g: Tensor, count: int, *, rows: Tensor | None = None, exclude_self: bool = False) -> Tensor:
    """For rows of g [N, d], the `count` rows of g with the largest inner product, largest first: int32 [rows, n].

    Among equal products the lower number comes first. Memory is O(N·n) and one tile.

    Args:
        rows: Numbers of the requested rows; by default all.
        exclude_self: Whether a row is excluded from its own neighbours.
    """
    if count < 1:
        raise InputError(f"the number of neighbours must be at least 1, but got {count}.")
    if rows is not None and rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < len(g):
        raise InputError(f"rows must lie in 0 … {len(g) - 1}, but they span {int(rows.min())} … {int(rows.max())}.")
    n = max(0, min(count, g.size(0) - exclude_self))
    table = g.detach().contiguous()
    wanted = torch.arange(len(g), device=g.device) if rows is None else rows
    if g.device.type != "cpu" or not n:
        return _largest_by_topk(table, wanted, n, exclude_self=exclude_self)
    if rows is not None and 2 * len(rows) >= len(g):  # all rows together cost half as much per row
        return largest_products(g, count, exclude_self=exclude_self)[rows]
    search = _Search(
        values=np.full((len(wanted), n), -np.inf, table.numpy().dtype),
        best=np.full((len(wanted), n), -1, np.int32),
        skipped=(wanted if exclude_self else torch.full_like(wanted, -1)).numpy(),
    )
    asked = table if rows is None else table[rows]
    room = table.new_empty(_TILE * _TILE)
    # columns reach every row in ascending order; of all rows, first from the tiles above it, then from its own
    for top in range(0, len(asked), _TILE):
        for left in range(top if rows is None else 0, len(table), _TILE):
            high, wide = asked[top : top + _TILE], table[left : left + _TILE]
            tile = room[: len(high) * len(wide)].view(len(high), len(wide))
            search.scan(torch.mm(high, wide.T, out=tile).numpy(), top, left, symmetric=rows is None)
    # a row without enough comparable products (NaN) still lists nodes, so that NaN stays visible
    return torch.from_numpy(np.where(search.best < 0, np.arange(n, dtype=np.int32), search.best))


def largest_between(
    left: Tensor, right: Tensor, count: int, *, skipped: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """For rows of left [B, d], the `count` rows of right [N, d] with the largest inner product, and the products.

    Among equal products the lower number comes first. Where fewer rows are left, the number is −1 and the product −∞.
    Memory is O(B·n) and one tile.

    Args:
        skipped: Pairs that are left out, in the form of a CSR matrix [B, N] with sorted columns: pointers and columns.
    """
    table, asked = right.detach().cpu().contiguous(), left.detach().cpu().contiguous()
    values = np.full((len(asked), count), -np.inf, table.numpy().dtype)
    search = _Search(values, np.full((len(asked), count), -1, np.int32), np.full(len(asked), -1))
    pointers, columns = skipped
    room = table.new_empty(_TILE * _TILE)
    for top in range(0, len(asked), _TILE):
        high = asked[top : top + _TILE]
        span = slice(pointers[top], pointers[top + len(high)])
        column = columns[span]
        row = np.repeat(np.arange(len(high)), np.diff(pointers[top : top + len(high) + 1]))
        order = np.argsort(column, kind="stable")
        row, column = row[order], column[order]
        for start in range(0, len(table), _TILE):
            wide = table[start : start + _TILE]
            tile = torch.mm(high, wide.T, out=room[: len(high) * len(wide)].view(len(high), len(wide))).numpy()
            first, last = np.searchsorted(column, (start, start + len(wide)))
            tile[row[first:last], column[first:last] - start] = -np.inf
            search.scan(tile, top, start, symmetric=False)
    return search.best, search.values


@dataclass(frozen=True)
class _Search:
    """The largest products found so far of each row, in descending order, and the column that it may not choose."""

    values: np.ndarray
    best: np.ndarray
    skipped: np.ndarray

    def scan(self, tile: np.ndarray, top: int, left: int, *, symmetric: bool) -> None:
        """Offer the products of a tile to its rows and, if products are symmetric, to its columns."""
        rows, columns = (-(-size // _PART) for size in tile.shape)
        run_ranges(_scan_rows, _scan_all_rows, rows, tile, top, left, self.skipped, self.values, self.best)
        if symmetric and left > top:
            run_ranges(_scan_columns, _scan_all_columns, columns, tile, top, left, self.values, self.best)


def _largest_by_topk(g: Tensor, rows: Tensor, n: int, *, exclude_self: bool) -> Tensor:
    """The same with torch alone, for other devices."""
    found = [torch.empty(0, n, dtype=torch.int32, device=g.device)]
    for part in rows.split(_TILE):
        products = g[part] @ g.T
        if exclude_self:
            products.scatter_(1, part[:, None], -math.inf)
        order = products.sort(dim=1, descending=True, stable=True).indices  # topk takes any of equal products
        found.append(order[:, :n].int())
    return torch.cat(found)


@kernel
def _insert(value: float, number: int, values: np.ndarray, best: np.ndarray) -> None:
    """Put a product that beats the last one into its place in a descending list."""
    k = len(values) - 1
    while k > 0 and value > values[k - 1]:
        values[k] = values[k - 1]
        best[k] = best[k - 1]
        k -= 1
    values[k] = value
    best[k] = number


@kernel
def _has_larger(values: np.ndarray, start: int, floors: np.ndarray) -> np.int32:
    """Whether any of the `_STRIDE` values from `start` on is above its floor.

    The number of turns is fixed and the answer has the width of a float, so that the compiler compares whole registers.
    """
    part, limits = values[start : start + _STRIDE], floors[start : start + _STRIDE]
    found = np.int32(0)
    for j in range(_STRIDE):
        found |= np.int32(part[j] > limits[j])
    return found


@kernel
def _scan_rows(
    first: int,
    last: int,
    tile: np.ndarray,
    top: int,
    left: int,
    skipped: np.ndarray,
    values: np.ndarray,
    best: np.ndarray,
) -> None:
    """Offer the columns of the tile to some parts of its rows."""
    end, width = values.shape[1] - 1, tile.shape[1]
    floors = np.empty(width, tile.dtype)
    for r in range(first * _PART, min(last * _PART, tile.shape[0])):
        row, i = tile[r], top + r
        own = skipped[i]
        floors[:] = values[i, end]
        for block in range(0, width, _STRIDE):
            stop = min(block + _STRIDE, width)
            if stop - block < _STRIDE or _has_larger(row, block, floors):
                for j in range(block, stop):
                    if row[j] > values[i, end] and left + j != own:
                        _insert(row[j], left + j, values[i], best[i])


@kernel
def _scan_columns(
    first: int, last: int, tile: np.ndarray, top: int, left: int, values: np.ndarray, best: np.ndarray
) -> None:
    """Offer the rows of the tile to some parts of its columns."""
    end = values.shape[1] - 1
    start, stop_at = first * _PART, min(last * _PART, tile.shape[1])
    floors = values[left + start : left + stop_at, end].copy()
    for r in range(tile.shape[0]):
        row = tile[r, start:stop_at]
        for block in range(0, len(row), _STRIDE):
            stop = min(block + _STRIDE, len(row))
            if stop - block < _STRIDE or _has_larger(row, block, floors):
                for j in range(block, stop):
                    i = left + start + j
                    if row[j] > values[i, end]:
                        _insert(row[j], top + r, values[i], best[i])
                        floors[j] = values[i, end]


_scan_all_rows = kernel(lambda threads, count, *arguments: on_team(_scan_rows, threads, count, arguments))
_scan_all_columns = kernel(lambda threads, count, *arguments: on_team(_scan_columns, threads, count, arguments))
