"""The n largest inner products of every row with all rows: exact, a tile at a time, never N × N."""

import math

import numpy as np
import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations.compile import kernel, run_ranges

_TILE = 1024  # rows and columns of a tile: a few megabytes, read from the cache while it is still warm
_STRIDE = 32  # products that are compared at once before any of them is looked at


def largest_products(g: Tensor, count: int, *, exclude_self: bool = False) -> Tensor:
    """For each row of g [N, d], the `count` rows with the largest inner product, largest first: int32 [N, n].

    Products are symmetric: each tile above the diagonal serves its rows and its columns. Of equal products the
    lower number comes first. Memory is O(N·n) and one tile.
    """
    if count < 1:
        raise InputError(f"the number of neighbours must be at least 1, but got {count}.")
    N = g.size(0)
    n = max(0, min(count, N - exclude_self))
    if g.device.type != "cpu" or not n:
        return _largest_by_topk(g.detach(), n, exclude_self=exclude_self)
    table = g.detach().contiguous()
    best = np.full((N, n), -1, np.int32)
    values = np.full((N, n), -np.inf, table.numpy().dtype)
    room = table.new_empty(_TILE * _TILE)
    # columns reach every row in ascending order, first from the tiles above it, then from its own
    for top in range(0, N, _TILE):
        rows = table[top : top + _TILE]
        for left in range(top, N, _TILE):
            columns = table[left : left + _TILE]
            tile = room[: len(rows) * len(columns)].view(len(rows), len(columns))
            _scan(torch.mm(rows, columns.T, out=tile).numpy(), top, left, exclude_self, values, best)
    # a row without enough comparable products (not-a-number) still names nodes: what is computed stays visible
    return torch.from_numpy(np.where(best < 0, np.arange(n, dtype=np.int32), best))


def _scan(tile: np.ndarray, top: int, left: int, exclude_self: bool, values: np.ndarray, best: np.ndarray) -> None:
    height, width = tile.shape
    pieces = 8  # per tile: enough for a few threads, few enough not to matter

    def rows(first: int, last: int) -> None:
        _scan_rows(tile, height * first // pieces, height * last // pieces, top, left, exclude_self, values, best)

    def columns(first: int, last: int) -> None:
        _scan_columns(tile, width * first // pieces, width * last // pieces, top, left, values, best)

    run_ranges(rows, pieces)
    if left > top:
        run_ranges(columns, pieces)


def _largest_by_topk(g: Tensor, n: int, *, exclude_self: bool) -> Tensor:
    """The same with torch alone, for other devices."""
    found = [torch.empty(0, n, dtype=torch.int32, device=g.device)]
    for start in range(0, g.size(0), _TILE):
        products = g[start : start + _TILE] @ g.T
        if exclude_self:
            own = torch.arange(products.size(0), device=g.device)
            products[own, own + start] = -math.inf
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
    exclude_self: bool,
    values: np.ndarray,
    best: np.ndarray,
) -> None:
    """Offer the columns of the tile to its rows."""
    end = values.shape[1] - 1
    for r in range(first, last):
        row, i = tile[r], top + r
        own = i if exclude_self else -1
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
