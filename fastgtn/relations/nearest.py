"""The n largest inner products of rows with all rows: exact, a tile at a time, never N × N."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations.compile import kernel, run_ranges

_TILE = 1024  # rows and columns of a tile: a few megabytes, read from the cache while it is still warm
_STRIDE = 32  # products that are compared at once before any of them is looked at


def largest_products(g: Tensor, count: int, *, rows: Tensor | None = None, exclude_self: bool = False) -> Tensor:
    """For rows of g [N, d], the `count` rows of g with the largest inner product, largest first: int32 [rows, n].

    Of equal products the lower number comes first. Memory is O(N·n) and one tile.

    Args:
        rows: Numbers of the rows that are asked for; all of them without it.
        exclude_self: Whether a row may not be its own neighbour.
    """
    if count < 1:
        raise InputError(f"the number of neighbours must be at least 1, but got {count}.")
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
    # a row without enough comparable products (not-a-number) still names nodes: what is computed stays visible
    return torch.from_numpy(np.where(search.best < 0, np.arange(n, dtype=np.int32), search.best))


@dataclass(frozen=True)
class _Search:
    """The largest products found so far of each row, in descending order, and the column that it may not choose."""

    values: np.ndarray
    best: np.ndarray
    skipped: np.ndarray

    def scan(self, tile: np.ndarray, top: int, left: int, *, symmetric: bool) -> None:
        """Offer the products of a tile to its rows; where products are symmetric, to its columns as well."""
        height, width = tile.shape
        pieces = 8  # per tile: enough for a few threads, few enough not to matter

        def rows(first: int, last: int) -> None:
            part = height * first // pieces, height * last // pieces
            _scan_rows(tile, *part, top, left, self.skipped, self.values, self.best)

        def columns(first: int, last: int) -> None:
            _scan_columns(tile, width * first // pieces, width * last // pieces, top, left, self.values, self.best)

        run_ranges(rows, pieces)
        if symmetric and left > top:
            run_ranges(columns, pieces)


def _largest_by_topk(g: Tensor, rows: Tensor, n: int, *, exclude_self: bool) -> Tensor:
    """The same with torch alone, for other devices."""
    found = [torch.empty(0, n, dtype=torch.int32, device=g.device)]
    for part in rows.split(_TILE):
        products = g[part] @ g.T
        if exclude_self:
            products.scatter_(1, part[:, None], -math.inf)
        found.append(products.topk(n).indices.int())
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
def _scan_rows(
    tile: np.ndarray,
    first: int,
    last: int,
    top: int,
    left: int,
    skipped: np.ndarray,
    values: np.ndarray,
    best: np.ndarray,
) -> None:
    """Offer the columns of the tile to its rows."""
    end = values.shape[1] - 1
    for r in range(first, last):
        row, i = tile[r], top + r
        own = skipped[i]
        for block in range(0, tile.shape[1], _STRIDE):
            stop = min(block + _STRIDE, tile.shape[1])
            floor = values[i, end]
            above = 0
            for j in range(block, stop):
                above += row[j] > floor
            if above:
                for j in range(block, stop):
                    if row[j] > values[i, end] and left + j != own:
                        _insert(row[j], left + j, values[i], best[i])


@kernel
def _scan_columns(
    tile: np.ndarray, first: int, last: int, top: int, left: int, values: np.ndarray, best: np.ndarray
) -> None:
    """Offer the rows of the tile to its columns."""
    end = values.shape[1] - 1
    floors = values[left + first : left + last, end].copy()
    for r in range(tile.shape[0]):
        row = tile[r, first:last]
        for block in range(0, len(row), _STRIDE):
            stop = min(block + _STRIDE, len(row))
            above = 0
            for j in range(block, stop):
                above += row[j] > floors[j]
            if above:
                for j in range(block, stop):
                    i = left + first + j
                    if row[j] > values[i, end]:
                        _insert(row[j], top + r, values[i], best[i])
                        floors[j] = values[i, end]
