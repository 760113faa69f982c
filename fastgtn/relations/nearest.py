"""The n largest inner products of every row with all rows: exact, a tile at a time, never N × N."""

import math

import numpy as np
import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.relations.compile import kernel, run_ranges

_TILE_BYTES = 8 << 20  # the products of a few hundred rows with all others: small enough to stay in the cache
_SCAN = 32  # products whose maximum is compared with the n-th best so far before they are looked at one by one


def largest_products(g: Tensor, count: int, *, exclude_self: bool = False) -> Tensor:
    """For each row of g [N, d], the `count` rows with the largest inner product, largest first: int32 [N, n].

    Of equal products the lower number comes first. Memory is O(N·n) and one tile.
    """
    if count < 1:
        raise InputError(f"the number of neighbours must be at least 1, but got {count}.")
    N = g.size(0)
    n = max(0, min(count, N - exclude_self))
    if g.device.type != "cpu":
        return _largest_by_topk(g, n, exclude_self=exclude_self)
    table = g.detach().contiguous()
    best = np.empty((N, n), np.int32)
    height = max(1, _TILE_BYTES // max(1, N * table.element_size()))
    tile = table.new_empty(min(height, N), N)
    for start in range(0, N if n else 0, height):
        stop = min(start + height, N)
        products = torch.mm(table[start:stop], table.T, out=tile[: stop - start]).numpy()

        def task(first: int, last: int, start: int = start, products: np.ndarray = products) -> None:
            _scan(products[first:last], start + first, exclude_self, best[start + first : start + last])

        run_ranges(task, stop - start)
    return torch.from_numpy(best)


def _largest_by_topk(g: Tensor, n: int, *, exclude_self: bool) -> Tensor:
    """The same with torch alone, for other devices."""
    height = max(1, _TILE_BYTES // max(1, g.size(0) * g.element_size()))
    found = [torch.empty(0, n, dtype=torch.int32, device=g.device)]
    for start in range(0, g.size(0), height):
        products = g[start : start + height].detach() @ g.detach().T
        if exclude_self:
            own = torch.arange(products.size(0), device=g.device)
            products[own, own + start] = -math.inf
        found.append(products.topk(n).indices.int())
    return torch.cat(found)


@kernel
def _scan(products: np.ndarray, start: int, exclude_self: bool, best: np.ndarray) -> None:
    """Find the largest entries of each row; row r of the tile belongs to node ``start + r``."""
    n = best.shape[1]
    columns = products.shape[1]
    values = np.empty(n, products.dtype)
    for r in range(products.shape[0]):
        row = products[r]
        own = start + r if exclude_self else -1
        for k in range(n):
            values[k] = -np.inf
            best[r, k] = -1
        floor = values[n - 1]
        for block in range(0, columns, _SCAN):
            stop = min(block + _SCAN, columns)
            if stop - block == _SCAN:
                top = row[block]
                for j in range(block, block + _SCAN):
                    top = max(top, row[j])
                if not top > floor and best[r, n - 1] >= 0:
                    continue
            for j in range(block, stop):
                if j == own or (not row[j] > floor and best[r, n - 1] >= 0):
                    continue
                k = n - 1
                while k > 0 and (best[r, k - 1] < 0 or row[j] > values[k - 1]):
                    values[k] = values[k - 1]
                    best[r, k] = best[r, k - 1]
                    k -= 1
                values[k] = row[j]
                best[r, k] = j
                floor = values[n - 1]
