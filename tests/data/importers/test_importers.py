"""Each importer reads a tiny file of its format and stores a graph that comes back as it was."""

import json
import os
import pickle
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from fastgtn.data import archive
from fastgtn.data.importers import FORMATS, gaug, graphsage, gtn, hgb, import_graph, planetoid, pyg
from fastgtn.errors import InputError


def save(path: Path, value: Any, protocol: int = 2) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(pickle.dumps(value, protocol))


def dense(x: torch.Tensor) -> list[list[float]]:
    return (x.to_dense() if x.layout != torch.strided else x).tolist()


def edges(graph: HeteroData, *edge_type: str) -> set[tuple[int, int]]:
    return set(map(tuple, graph[edge_type].edge_index.t().tolist()))


def matrix(size: int, *entries: tuple[int, int], width: int | None = None) -> sp.csr_matrix:
    rows, columns = zip(*entries, strict=True)
    return sp.csr_matrix((np.ones(len(entries)), (rows, columns)), shape=(size, width or size))


def gtn_folder(path: Path) -> Path:
    """Papers 0–2, authors 3–4, subject 5; paper 2 has no author; relations PA, AP, PS, SP."""
    pa, ps = matrix(6, (0, 3), (1, 3), (1, 4)), matrix(6, (0, 5), (1, 5), (2, 5))
    save(path / "edges.pkl", [pa, pa.T.tocsr(), ps, ps.T.tocsr()])
    save(path / "node_features.pkl", np.arange(12.0).reshape(6, 2))
    save(path / "labels.pkl", [[[0, 1]], [[1, 0]], [[2, 1]]])
    return path


def test_gtn_infers_types_and_keeps_the_direction(tmp_path: Path) -> None:
    graph, task = gtn.read(gtn_folder(tmp_path / "ACM"))
    assert graph.node_types == ["paper", "author", "subject"]
    assert edges(graph, "paper", "PA", "author") == {(0, 0), (1, 0), (1, 1)}
    assert edges(graph, "subject", "SP", "paper") == {(0, 0), (0, 1), (0, 2)}
    assert graph.shared_features
    assert dense(graph["author"].x) == [[6, 7], [8, 9]]
    assert (task.target, task.num_classes, task.test_nodes.tolist()) == ("paper", 2, [2])
    assert task.train.labels.tolist() == [1]


def test_gtn_folder_of_another_name_gets_numbered_types(tmp_path: Path) -> None:
    graph, task = gtn.read(gtn_folder(tmp_path / "mine"))
    assert graph.node_types == ["type_0", "type_1", "type_2"]
    assert ("type_0", "relation_0", "type_1") in graph.edge_types
    assert task.target == "type_0"


def test_gtn_names_from_a_file(tmp_path: Path) -> None:
    names = tmp_path / "names.toml"
    names.write_text('relations = ["writes", "by", "on", "of"]\n[types]\nwork = 3\nhuman = 2\nfield = 1\n')
    graph, _ = gtn.read(gtn_folder(tmp_path / "x"), types=names)
    assert graph.edge_types[0] == ("work", "writes", "human")
    names.write_text("[types]\nwork = 3\nhuman = 2\n")
    with pytest.raises(InputError, match="6 in all"):
        gtn.read(tmp_path / "x", types=names)
    names.write_text('relations = ["writes"]')
    with pytest.raises(InputError, match=r"1 relations are named but edges\.pkl contains 4"):
        gtn.read(tmp_path / "x", types=names)
    names.write_text("kinds = 3")
    with pytest.raises(InputError, match="nothing else"):
        gtn.read(tmp_path / "x", types=names)


def test_gtn_node_without_edges_joins_its_block_or_its_label(tmp_path: Path) -> None:
    folder = gtn_folder(tmp_path / "x")
    pa = matrix(6, (0, 3), (1, 3))  # paper 2 and author 4 are alone now, subject 5 too
    save(folder / "edges.pkl", [pa, pa.T.tocsr()])
    graph, _ = gtn.read(folder)
    assert graph["type_0"].node_id.tolist() == [0, 1, 2]
    assert graph["type_1"].node_id.tolist() == [3, 4, 5]


def test_gtn_one_matrix_is_a_homogeneous_graph(tmp_path: Path) -> None:
    folder = gtn_folder(tmp_path / "x")
    save(folder / "edges.pkl", [matrix(6, (0, 1), (1, 2), (3, 4), (4, 5), (2, 3))])
    graph, _ = gtn.read(folder)
    assert graph.node_types == ["node"]


@pytest.mark.parametrize(
    ("file", "value", "message"),
    [
        ("edges.pkl", 3, "must contain a list of matrices"),
        ("edges.pkl", [np.eye(6), np.eye(5)], "all must be 6 × 6"),
        ("edges.pkl", [np.zeros((6, 6))], "no edges"),
        ("node_features.pkl", np.zeros((5, 2)), "5 rows but edges.pkl has 6 nodes"),
        ("node_features.pkl", np.full((6, 2), np.nan), "NaN"),
        ("labels.pkl", [[[0, 1]]], "three lists"),
        ("labels.pkl", [[[9, 1]], [[1, 0]], [[2, 1]]], r"outside 0 … 5"),
        ("labels.pkl", [[[0, 1]], [[3, 0]], [[2, 1]]], "more than one type"),
    ],
)
def test_gtn_refuses(tmp_path: Path, file: str, value: Any, message: str) -> None:
    folder = gtn_folder(tmp_path / "acm")
    save(folder / file, value)
    with pytest.raises(InputError, match=message):
        gtn.read(folder)


def test_gaug_makes_the_graph_symmetric_without_self_loops(tmp_path: Path) -> None:
    save(tmp_path / "cora_adj.pkl", matrix(4, (0, 0), (0, 1), (1, 0), (2, 3)))
    save(tmp_path / "cora_features.pkl", sp.identity(4, format="csr"))
    save(tmp_path / "cora_labels.pkl", torch.tensor([0, 1, 0, 1]))
    save(tmp_path / "cora_tvt_nids.pkl", [np.array([0, 1]), np.array([2]), np.array([3])])
    graph, task = gaug.read(tmp_path)
    assert edges(graph, "node", "E", "node") == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert dense(graph["node"].x) == np.eye(4).tolist()
    assert (task.train.nodes.tolist(), task.val.nodes.tolist(), task.test_nodes.tolist()) == ([0, 1], [2], [3])
    save(tmp_path / "ppi_adj.pkl", 1)
    with pytest.raises(InputError, match="several datasets"):
        gaug.read(tmp_path)
    assert gaug.read(tmp_path / "cora")[0].name == "cora"


def test_gaug_with_several_labels_per_node(tmp_path: Path) -> None:
    labels = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]])
    save(tmp_path / "ppi_adj.pkl", matrix(3, (0, 1)))
    save(tmp_path / "ppi_features.pkl", np.ones((3, 2)))
    save(tmp_path / "ppi_labels.pkl", labels)
    save(tmp_path / "ppi_tvt_nids.pkl", [np.array([True, False, False]), np.array([1]), np.array([2])])
    _, task = gaug.read(tmp_path / "ppi")
    assert (task.kind, task.num_classes) == ("multi", 3)
    assert task.train.labels.tolist() == [[1, 0, 1]]
    save(tmp_path / "ppi_labels.pkl", labels[:2])
    with pytest.raises(InputError, match="2 rows but the graph has 3 nodes"):
        gaug.read(tmp_path / "ppi")
    with pytest.raises(InputError, match=r"no file \*_adj.pkl"):
        gaug.read(tmp_path / "cora")


def gaug_files(folder: Path) -> None:
    save(folder / "a_adj.pkl", matrix(3, (0, 1)))
    save(folder / "a_features.pkl", np.eye(3))
    save(folder / "a_labels.pkl", np.array([0, 1, 1]))
    save(folder / "a_tvt_nids.pkl", [[0], [1], [2]])


def planetoid_files(folder: Path) -> None:
    """Nodes 0–2 known, tested 4 and 3 in this order, 5 missing, tested 6."""
    one_hot = np.eye(2, dtype=np.int32)
    save(folder / "ind.tiny.x", sp.csr_matrix([[1.0, 0, 0]]))
    save(folder / "ind.tiny.y", one_hot[[0]])
    save(folder / "ind.tiny.allx", sp.csr_matrix([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]]))
    save(folder / "ind.tiny.ally", one_hot[[0, 1, 0]])
    save(folder / "ind.tiny.tx", sp.csr_matrix([[4.0, 0, 0], [3, 0, 0], [6, 0, 0]]))
    save(folder / "ind.tiny.ty", one_hot[[1, 0, 1]])
    links = defaultdict(list, {0: [1, 1, 3], 1: [0], 3: [0], 4: [6], 6: [4], 2: [2]})
    save(folder / "ind.tiny.graph", links)
    (folder / "ind.tiny.test.index").write_text("4\n3\n6\n")


def test_planetoid_puts_test_rows_in_their_places(tmp_path: Path) -> None:
    planetoid_files(tmp_path)
    graph, task = planetoid.read(tmp_path)
    assert [row[0] for row in dense(graph["node"].x)] == [1, 0, 0, 3, 4, 0, 6]
    assert edges(graph, "node", "E", "node") == {(0, 1), (1, 0), (0, 3), (3, 0), (4, 6), (6, 4)}
    assert "edge_weight" not in graph["node", "E", "node"]
    assert task.test_nodes.tolist() == [3, 4, 6]
    assert (task.train.nodes.tolist(), task.val.nodes.tolist()) == ([0], [1, 2])
    perfect = torch.tensor([[1.0, 0], [0, 1], [0, 1]])  # node 3 is class 0, nodes 4 and 6 are class 1
    assert task.score_test(perfect)["accuracy"] == 1
    (tmp_path / "ind.tiny.test.index").write_text("4\n4\n6\n")
    with pytest.raises(InputError, match="distinct node numbers"):
        planetoid.read(tmp_path / "ind.tiny")


def graphsage_files(folder: Path, *, by_place: bool) -> None:
    nodes = [{"id": i, "val": i == "b", "test": i == "c"} for i in ("a", "b", "c")]
    links = [{"source": 0, "target": 1}] if by_place else [{"source": "a", "target": "b"}]
    (folder / "toy-G.json").write_text(json.dumps({"directed": False, "nodes": nodes, "links": links}))
    (folder / "toy-id_map.json").write_text(json.dumps({"a": 2, "b": 1, "c": 0}))
    (folder / "toy-class_map.json").write_text(json.dumps({"a": [1, 0], "b": [1, 1], "c": [0, 1]}))
    np.save(folder / "toy-feats.npy", np.arange(6.0).reshape(3, 2))


@pytest.mark.parametrize("by_place", [True, False])
def test_graphsage_links_by_id_or_by_place(tmp_path: Path, by_place: bool) -> None:
    graphsage_files(tmp_path, by_place=by_place)
    graph, task = graphsage.read(tmp_path)
    assert edges(graph, "node", "E", "node") == {(2, 1), (1, 2)}
    assert graph["node"].node_id.tolist() == ["c", "b", "a"]
    assert (task.kind, task.train.nodes.tolist(), task.val.nodes.tolist()) == ("multi", [2], [1])
    assert task.val.labels.tolist() == [[1, 1]]
    np.save(tmp_path / "toy-feats.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="not a readable array of numbers"):
        graphsage.read(tmp_path / "toy")


def hgb_files() -> dict[str, str]:
    info = {
        "node.dat": {"node type": {"0": "movie", "1": "director"}},
        "link.dat": {"link type": {"0": {"start": 0, "end": 1, "meaning": "movie->director"}}},
        "label.dat": {"node type": {"0": {"0": "drama", "1": "comedy"}}},
    }
    return {
        "info.dat": json.dumps(info),
        "node.dat": "0\tHeat\t0\t1,0\n1\tUp\t0\t0,2\n2\tBig\t0\t0,0\n3\tAnn\t1\n",
        "link.dat": "0\t3\t0\t1\n1\t3\t0\t2.5\n",
        "label.dat": "0\tHeat\t0\t0,1\n1\tUp\t0\t1\n",
        "label.dat.test": "2\tBig\t0\t0\n",
    }


@pytest.mark.parametrize("zipped", [True, False])
def test_hgb_folder_and_zip(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / ("IMDB.zip" if zipped else "IMDB")
    if zipped:
        with zipfile.ZipFile(path, "w") as target:
            for name, text in hgb_files().items():
                target.writestr(f"IMDB/{name}", text)
    else:
        path.mkdir()
        for name, text in hgb_files().items():
            (path / name).write_text(text)
    graph, task = hgb.read(path)
    assert graph.edge_types == [("movie", "movie-director", "director")]
    assert graph[graph.edge_types[0]].edge_weight.tolist() == [1, 2.5]
    assert dense(graph["movie"].x) == [[1, 0], [0, 2], [0, 0]]
    assert "x" not in graph["director"]
    assert graph["movie"].node_name.tolist() == ["Heat", "Up", "Big"]
    assert task is not None
    assert (task.target, task.kind, task.class_names) == ("movie", "multi", ("drama", "comedy"))
    assert task.val_is_drawn
    assert task.score_test(torch.tensor([[9.0, -9]]))["accuracy"] == 1


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("link.dat", "0\t99\t0\t1\n", "nodes that are not in node.dat, such as 99"),
        ("link.dat", "0\t3\n", "line 1 has 2"),
        ("link.dat", "0\t3\t0\t1\n0\t1\t0\t1\n", "more than one pair of node types"),
        ("node.dat", "0\tHeat\t0\n0\tUp\t0\n", "contains a node twice"),
        ("node.dat", "0\tHeat\t0\t1,2\n1\tUp\t0\t1\n", "different numbers of features"),
        ("node.dat", "x\tHeat\t0\n", "not a whole number"),
        ("node.dat", "", "it is empty"),
        ("label.dat", "0\tHeat\t0\t-1\n", "they must count from zero"),
        ("label.dat", "0\tHeat\t0\t0\n3\tAnn\t1\t0\n", "more than one type"),
    ],
)
def test_hgb_refuses(tmp_path: Path, file: str, text: str, message: str) -> None:
    for name, content in (hgb_files() | {file: text}).items():
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        hgb.read(tmp_path)


def test_pyg_data_masks_become_splits(tmp_path: Path) -> None:
    masks = {f"{name}_mask": torch.eye(4)[i].bool() for i, name in enumerate(("train", "val", "test"))}
    data = Data(x=torch.rand(4, 3), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0, 1, 2, 0]), **masks)
    torch.save(data, tmp_path / "d.pt")
    graph, task = pyg.read(tmp_path / "d.pt")
    assert edges(graph, "node", "E", "node") == {(0, 1), (1, 2)}
    assert task is not None
    assert (task.train.nodes.tolist(), task.val.nodes.tolist(), task.test_nodes.tolist()) == ([0], [1], [2])


def test_pyg_hetero_data(tmp_path: Path) -> None:
    saved = HeteroData()
    saved["user"].x, saved["user"].y = torch.rand(3, 2), torch.tensor([0, 1, 1])
    saved["user"].train_mask, saved["user"].test_mask = torch.tensor([1, 1, 0]).bool(), torch.tensor([0, 0, 1]).bool()
    saved["shop"].num_nodes = 2
    saved["user", "visits", "shop"].edge_index = torch.tensor([[0, 2], [1, 0]])
    saved["user", "visits", "shop"].edge_weight = torch.tensor([1.0, 3.0])
    torch.save(saved, tmp_path / "h.pt")
    graph, task = pyg.read(tmp_path / "h.pt")
    assert torch.equal(graph["user"].x, saved["user"].x)
    assert graph["user", "visits", "shop"].edge_weight.tolist() == [1, 3]
    assert task is not None
    assert (task.target, task.val_is_drawn) == ("user", True)
    saved["user", "visits", "shop"].edge_index[1, 0] = 7
    torch.save(saved, tmp_path / "h.pt")
    with pytest.raises(InputError, match='nodes that "shop" does not have'):
        pyg.read(tmp_path / "h.pt")


def test_pyg_refuses_foreign_classes_and_runs_nothing(tmp_path: Path) -> None:
    class Exploit:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.system, (f"touch {tmp_path / 'it-ran'}",)

    torch.save({"x": Exploit()}, tmp_path / "bad.pt")
    with pytest.raises(InputError, match="it was not loaded"):
        pyg.read(tmp_path / "bad.pt")
    assert not (tmp_path / "it-ran").exists()
    torch.save(torch.ones(3), tmp_path / "tensor.pt")
    with pytest.raises(InputError, match="contains a Tensor; save one Data or HeteroData"):
        pyg.read(tmp_path / "tensor.pt")


def test_whatever_a_malformed_file_provokes_is_one_clear_error(tmp_path: Path) -> None:
    """Each file of each format in turn is replaced by contents that are readable but mean nothing."""
    nonsense: list[Any] = [{}, [], 3, None, "x", [[1, [2]]], {"nodes": [1], "links": [2]}, np.zeros(2), [None] * 3]
    for kind, make in (("gtn", gtn_folder), ("planetoid", planetoid_files), ("gaug", gaug_files)):
        folder = tmp_path / kind
        folder.mkdir()
        make(folder)
        for file in sorted(folder.glob("*.pkl" if kind != "planetoid" else "ind.tiny.[atgy]*")):
            good = file.read_bytes()
            for value in nonsense[file.suffix == ".graph" :]:  # an empty dictionary is a graph without links
                save(file, value)
                with pytest.raises(InputError):
                    import_graph(kind, folder)
            file.write_bytes(good)
        import_graph(kind, folder)
    graphsage_files(tmp_path, by_place=True)
    for file in sorted(tmp_path.glob("toy-*.json")):
        good = file.read_bytes()
        for value in [*nonsense[:7], {"a": "x", "b": [1], "c": None}]:
            file.write_text(json.dumps(value))
            if value == {} and "id_map" in file.name:
                continue  # no map: rows in the order of the nodes
            with pytest.raises(InputError):
                import_graph("graphsage", tmp_path)
        file.write_bytes(good)


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_every_importer_round_trips_through_an_archive(kind: str, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    if kind == "gtn":
        gtn_folder(source)
    elif kind == "gaug":
        gaug_files(source)
    elif kind == "planetoid":
        planetoid_files(source)
    elif kind == "mat":
        source = source / "a.mat"
        scipy.io.savemat(source, {"Network": np.ones((30, 30)), "Attributes": np.eye(30), "Label": np.arange(30) % 3})
    elif kind == "graphsage":
        graphsage_files(source, by_place=False)
    elif kind == "hgb":
        for name, text in hgb_files().items():
            (source / name).write_text(text)
    else:
        source = source / "a.pt"
        torch.save(Data(x=torch.rand(3, 2), edge_index=torch.tensor([[0], [1]])), source)
    graph, task = import_graph(kind, source)
    archive.write(tmp_path / "out.npz", graph, task)
    stored, stored_task = archive.read(tmp_path / "out.npz")
    assert stored.node_types == graph.node_types
    assert stored.edge_types == graph.edge_types
    assert all(edges(stored, *e) == edges(graph, *e) for e in graph.edge_types)
    assert all(dense(stored[t].x) == dense(graph[t].x) for t in graph.node_types if "x" in graph[t])
    if task is None:
        assert stored_task is None
    else:
        assert stored_task is not None
        assert torch.equal(stored_task.train.nodes, task.train.nodes)
        assert torch.equal(stored_task.val.labels, task.val.labels)
        assert torch.equal(stored_task._labels[task.test_nodes], task._labels[task.test_nodes])
