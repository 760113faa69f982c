"""Train FastGTN on a PyTorch Geometric graph in a plain loop:  python examples/pyg_loop.py.

The graph is drawn so that the label of an author follows from their co-authors: the meta-path APA.
"""

import torch
import torch.nn.functional as F

from fastgtn.data import hetero_batches, make_planted
from fastgtn.explain import rank_metapaths
from fastgtn.nn import HeteroFastGTN

data, task = make_planted("APA", seed=0)  # a HeteroData like any other
data["author"].y = torch.full((data["author"].num_nodes,), -1)
for split in (task.train, task.val):
    data["author"].y[split.nodes] = split.labels

torch.manual_seed(0)
model = HeteroFastGTN(-1, 16, task.num_classes, data.metadata(), "author", aggregate="mean", dropout=0.2)
with torch.no_grad():
    model(data.x_dict, data.edge_index_dict)  # finds out the widths of the features
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)


def accuracy(nodes: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        scores = model(data.x_dict, data.edge_index_dict)["author"][nodes]
    return float((scores.argmax(-1) == data["author"].y[nodes]).float().mean())


for epoch in range(1, 101):
    model.train()
    optimizer.zero_grad()
    out = model(data.x_dict, data.edge_index_dict)["author"]
    loss = F.cross_entropy(out[task.train.nodes], data["author"].y[task.train.nodes])
    loss.backward()
    optimizer.step()
    if epoch % 20 == 0:
        print(f"epoch {epoch}  loss {loss:.3f}  validation accuracy {accuracy(task.val.nodes):.2f}")

# the same model on mini-batches: the first `batch_size` authors of a batch are its targets
for batch in hetero_batches(data, "author", task.train.nodes, fanouts=[10, 10], batch_size=128):
    model.train()
    optimizer.zero_grad()
    targets = slice(batch["author"].batch_size)
    out = model(batch.x_dict, batch.edge_index_dict)["author"]
    F.cross_entropy(out[targets], batch["author"].y[targets]).backward()
    optimizer.step()

ranking = rank_metapaths(model.backbone, model.stack(data.x_dict, data.edge_index_dict), "author", top=3)
for path in ranking.paths:
    print(f"{path.rank}  {path.name}  {100 * path.weight:.1f} %")
