"""A graph that one can draw."""

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask


@pytest.fixture
def shop() -> tuple[HeteroData, NodeTask]:
    """Four users, three shops; weighted visits, different feature widths, ids and names of the user's own."""
    graph = HeteroData()
    graph.name, graph.shared_features = "shop", False
    graph["user"].num_nodes, graph["shop"].num_nodes = 4, 3
    graph["user"].x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.5, 0.0], [0.0, 0.0]]).to_sparse_csr()
    graph["shop"].x = torch.arange(9.0).reshape(3, 3)
    graph["user"].node_id = np.array(["ann", "bob", "çelik", "dan"])
    graph["shop"].node_id = np.array([70, 80, 90])
    graph["shop"].node_name = np.array(["baker", "butcher", "bank"])
    graph["user", "visits", "shop"].edge_index = torch.tensor([[3, 0, 0, 1, 2], [0, 2, 1, 1, 2]])
    graph["user", "visits", "shop"].edge_weight = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    graph["shop", "visited_by", "user"].edge_index = torch.tensor([[0, 2, 1, 1, 2], [3, 0, 0, 1, 2]])
    task = NodeTask.from_labels(
        "user",
        "single",
        torch.tensor([0, 1, 0, 1]),
        class_names=["old", "young"],
        train=torch.tensor([1, 0]),
        val=torch.tensor([2]),
        test=torch.tensor([3]),
    )
    return graph, task
