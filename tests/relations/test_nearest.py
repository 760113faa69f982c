"""The n largest inner products, exactly, whatever the tile."""

import pytest
import torch
from graphs import randn
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgtn import InputError
from fastgtn.relations.kernels import nearest
from fastgtn.relations.kernels.nearest import largest_products


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 90), st.integers(1, 7), st.booleans(), st.integers(0, 999))
def test_same_values_as_a_full_sort(N, n, exclude_self, seed):
    g = randn(N, 3, seed=seed)
    products = g @ g.T
    if exclude_self:
        products.fill_diagonal_(-torch.inf)
    found = largest_products(g, n, exclude_self=exclude_self)
    kept = min(n, N - exclude_self)
    assert found.shape == (N, kept)
    values = products.gather(1, found.long())
    torch.testing.assert_close(values, products.sort(1, descending=True).values[:, :kept])
    assert all(len(set(row)) == kept for row in found.tolist())


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 90), st.integers(1, 7), st.booleans(), st.integers(0, 999), st.data())
def test_some_rows_choose_what_they_choose_among_all(N, n, exclude_self, seed, data):
    g = randn(N, 3, seed=seed).round()  # with ties
    rows = torch.tensor(data.draw(st.lists(st.integers(0, N - 1), unique=True)), dtype=torch.int64)
    whole = largest_products(g, n, exclude_self=exclude_self)
    assert torch.equal(largest_products(g, n, rows=rows, exclude_self=exclude_self), whole[rows])


def test_ties_go_to_the_lower_number():
    assert largest_products(torch.ones(50, 2), 3).tolist() == [[0, 1, 2]] * 50
    assert largest_products(torch.ones(50, 2), 3, exclude_self=True)[1].tolist() == [0, 2, 3]


def test_many_small_tiles(monkeypatch):
    g = randn(70, 4)
    whole = largest_products(g, 5)
    monkeypatch.setattr(nearest, "_TILE", 16)
    assert torch.equal(largest_products(g, 5), whole)
    rows = torch.tensor([69, 3, 16, 40, 17])
    assert torch.equal(largest_products(g, 5, rows=rows), whole[rows])
    for exclude_self in (False, True):
        topk = nearest._largest_by_topk(g, rows, 5, exclude_self=exclude_self)
        assert torch.equal(topk, largest_products(g, 5, exclude_self=exclude_self)[rows])


def test_no_neighbours_is_refused():
    with pytest.raises(InputError, match="at least 1"):
        largest_products(torch.ones(3, 2), 0)
