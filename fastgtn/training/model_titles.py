"""How models are called in tables and headings."""

TITLES = {
    "mlp": "MLP", "node2vec": "Node2Vec", "gcn": "GCN", "gat": "GAT", "jk_net": "JK-Net", "mixhop": "MixHop",
    "gcnii": "GCNII", "rgcn": "RGCN", "han": "HAN", "hgt": "HGT", "gtn": "GTN", "gtn_no_identity": "GTN₋I",
    "fast_gtn": "FastGTN", "fast_gtn_non_local": "FastGTN, non-local",
}  # fmt: skip


def title_of(model: str) -> str:
    """The name for people; a model without one is called as in its config."""
    return TITLES.get(model, model)
