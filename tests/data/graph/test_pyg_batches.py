"""Batches for PyG models: the same graph in small, targets first, decided by (seed, epoch, batch)."""

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv

from fastgtn.data import hetero_batches, make_planted
from fastgtn.errors import InputError


@pytest.fixture
def graph() -> HeteroData:
    graph, _ = make_planted(authors=60, papers=60, venues=12, terms=12)
    graph["author"].y = torch.arange(60)
    graph["author"].comment = "not per node"
    graph["paper"].half = torch.randn(60, 3).half()
    graph["venue"].words = torch.eye(12).to_sparse_csr()
    count = graph["paper", "PA", "author"].edge_index.size(1)
    graph["paper", "PA", "author"].edge_weight = torch.rand(count) + 0.5
    return graph


def edges(graph: HeteroData, edge_type: tuple[str, str, str]) -> dict[tuple[int, int], float]:
    store = graph[edge_type]
    ends = [store.edge_index[0], store.edge_index[1]]
    if "n_id" in graph[edge_type[0]]:
        ends = [graph[edge_type[0]].n_id[ends[0]], graph[edge_type[2]].n_id[ends[1]]]
    weights = store.edge_weight if "edge_weight" in store else torch.ones(len(ends[0]))
    return dict(zip(zip(*(end.tolist() for end in ends), strict=True), weights.tolist(), strict=True))


def test_a_batch_is_the_graph_in_small(graph):
    batches = hetero_batches(graph, "author", fanouts=[3, 2], batch_size=16, seed=1)
    assert len(batches) == 4
    seen = []
    for batch in batches:
        assert batch.validate()
        assert batch.node_types == graph.node_types
        assert batch.edge_types == graph.edge_types
        store = batch["author"]
        assert store.y.equal(store.n_id)
        assert store.comment == "not per node"
        assert (store.node_name == graph["author"].node_name[store.n_id.numpy()]).all()
        seen += store.n_id[: store.batch_size].tolist()
        for node_type in graph.node_types:
            assert batch[node_type].x.equal(graph[node_type].x[batch[node_type].n_id])
        assert batch["paper"].half.equal(graph["paper"].half[batch["paper"].n_id].float())
        assert batch["venue"].words.to_dense().equal(torch.eye(12)[batch["venue"].n_id])
        for edge_type in graph.edge_types:
            assert edges(batch, edge_type).items() <= edges(graph, edge_type).items()
            assert ("edge_weight" in batch[edge_type]) == ("edge_weight" in graph[edge_type])
    assert sorted(seen) == list(range(60))


def test_all_neighbours_give_the_full_graph_result_in_a_pyg_model(graph):
    torch.manual_seed(0)
    conv = [HeteroConv({t: SAGEConv((-1, -1), 5) for t in graph.edge_types}) for _ in range(2)]

    def run(data: HeteroData) -> torch.Tensor:
        x = {t: data[t].x for t in data.node_types}
        for layer in conv:
            x = layer(x, data.edge_index_dict)
        return x["author"]

    full, nodes = run(graph), torch.tensor([7, 3, 41])
    (batch,) = hetero_batches(graph, "author", nodes, fanouts=[None, None], batch_size=9, shuffle=False)
    assert batch["author"].n_id[:3].equal(nodes)
    torch.testing.assert_close(run(batch)[: batch["author"].batch_size], full[nodes])


def test_seed_epoch_and_number_decide(graph):
    def numbers(batch: HeteroData) -> list[list[int]]:
        return [batch[t].n_id.tolist() for t in batch.node_types]

    options = {"fanouts": [2, 2], "batch_size": 16, "seed": 3}
    first, second = (hetero_batches(graph, "author", **options) for _ in range(2))
    epochs = [[numbers(batch) for batch in first] for _ in range(2)]
    assert epochs[0] != epochs[1]
    assert numbers(second.batch(1, 2)) == epochs[1][2]
    second.epoch = 1
    assert [numbers(batch) for batch in second] == epochs[1]
    other = hetero_batches(graph, "author", **options | {"seed": 4})
    assert numbers(other.batch(0, 0)) != epochs[0][0]


def test_the_last_batch_may_be_dropped(graph):
    nodes = torch.arange(20)
    options = {"fanouts": [2], "batch_size": 8, "shuffle": False}
    sizes = [b["author"].batch_size for b in hetero_batches(graph, "author", nodes, **options)]
    assert sizes == [8, 8, 4]
    dropped = hetero_batches(graph, "author", nodes, drop_last=True, **options)
    assert len(dropped) == len(list(dropped)) == 2
    assert not list(hetero_batches(graph, "author", nodes[:0], **options))


def test_refusals(graph):
    with pytest.raises(InputError, match="batch_size is 0: it must be at least 1"):
        hetero_batches(graph, "author", fanouts=[2], batch_size=0)
    with pytest.raises(InputError, match='no node type "autor"'):
        hetero_batches(graph, "autor", fanouts=[2], batch_size=2)
    with pytest.raises(InputError, match="number them within their type"):
        hetero_batches(graph, "author", torch.tensor([60]), fanouts=[2], batch_size=2)
    with pytest.raises(InputError, match="must not be negative"):
        hetero_batches(graph, "author", fanouts=[2], batch_size=2, seed=-1)
    with pytest.raises(InputError, match="batch 4 does not exist: an epoch has 4"):
        hetero_batches(graph, "author", fanouts=[2], batch_size=15).batch(0, 4)


def test_numpy_arrays_of_other_lengths_are_left_alone(graph):
    graph["author"].table = np.arange(7)
    (batch,) = hetero_batches(graph, "author", torch.arange(2), fanouts=[1], batch_size=2)
    assert (batch["author"].table == np.arange(7)).all()
