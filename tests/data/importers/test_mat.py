"""MATLAB files: what is read of them, and what is refused before it is unpacked."""

import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from fastgtn.data.importers import mat
from fastgtn.errors import InputError


def test_mat_counts_from_one_and_draws_the_paper_s_shares(tmp_path: Path) -> None:
    N = 40
    network = sp.random(N, N, 0.1, random_state=0).tocsc()
    variables = {
        "Network": network,
        "Attributes": sp.random(N, 9, 0.05).tocsc(),
        "Label": np.arange(N)[:, None] % 4 + 1,
    }
    scipy.io.savemat(tmp_path / "Flickr.mat", variables)
    graph, task = mat.read(tmp_path / "Flickr.mat")
    assert graph.name == "flickr"
    assert graph["node"].x.is_sparse_csr
    assert task.class_names == ("1", "2", "3", "4")
    assert (len(task.train), len(task.val), len(task.test_nodes)) == (4, 8, 28)
    assert sorted(task.train.labels.tolist()) == [0, 1, 2, 3]
    scipy.io.savemat(tmp_path / "bad.mat", {"Network": network, "Attribute": network, "Label": [1]})
    with pytest.raises(InputError, match='no variable Attributes; did you mean "Attribute"'):
        mat.read(tmp_path / "bad.mat")
    (tmp_path / "junk.mat").write_bytes(b"MATLAB 5.0" * 20)
    with pytest.raises(InputError, match="not a readable MATLAB file"):
        mat.read(tmp_path / "junk.mat")


def test_a_small_mat_file_that_becomes_a_large_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastgtn.data.archive.arrays.BOMB_BYTES", 1 << 20)
    scipy.io.savemat(tmp_path / "zeros.mat", {"Network": np.zeros((1 << 11, 1 << 11))}, do_compression=True)
    with pytest.raises(InputError, match=r"a file of 3\d,\d{3} bytes that unpacks to over [\d,]+ bytes is refused"):
        mat.read(tmp_path / "zeros.mat")


@pytest.mark.parametrize(("order", "mark"), [("<", b"\0\1IM"), (">", b"\1\0MI")])
def test_a_mat_file_that_lies_about_its_size_is_refused_before_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, mark: bytes
) -> None:
    monkeypatch.setattr("fastgtn.data.archive.arrays.BOMB_BYTES", 1 << 20)
    stream = zlib.compress(struct.pack(f"{order}II", 14, 8) + bytes(1 << 26))
    element = struct.pack(f"{order}II", 15, len(stream)) + stream
    (tmp_path / "lie.mat").write_bytes(b"MATLAB 5.0".ljust(124) + mark + element)
    tracemalloc.start()
    with pytest.raises(InputError, match="is refused"):
        mat.read(tmp_path / "lie.mat")
    assert tracemalloc.get_traced_memory()[1] < 1 << 23
    tracemalloc.stop()
