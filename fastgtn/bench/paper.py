"""What the paper prints: test micro-F1 in points (tables 3, 4 and 6), and how much faster it found FastGTN."""

from collections.abc import Iterable

from fastgtn.data.catalog import PAPER as DATASETS

HERE = ("dblp", "acm", "imdb", "airport", "blogcatalog", "citeseer", "cora", "flickr")
NO_IDENTITY = "gtn_no_identity"
OURS = ("gtn", NO_IDENTITY, "fast_gtn", "fast_gtn_non_local")

_HETEROGENEOUS = ("dblp", "acm", "imdb")
_HOMOGENEOUS = ("airport", "blogcatalog", "citeseer", "cora", "flickr", "ppi")
_TABLE_3 = {
    "mlp": (79.18, 86.19, 49.51),
    "node2vec": (86.10, 76.27, 47.32),
    "gcn": (85.63, 91.70, 60.41),
    "gat": (94.68, 91.99, 59.64),
    "rgcn": (93.16, 91.93, 59.87),
    "han": (92.17, 91.10, 59.80),
    "hgt": (94.21, 91.14, 60.98),
    NO_IDENTITY: (94.74, 85.36, 59.27),
    "gtn": (94.47, 91.96, 61.02),
    "fast_gtn_non_local": (94.85, 92.51, 64.63),
}
OAG = ("CS", "ML", "NN")
TABLE_2 = {  # NDCG and MRR of each
    "mlp": ((28.57, 12.34), (30.89, 14.38), (25.99, 12.03)),
    "node2vec": ((26.92, 10.93), (31.62, 15.04), (26.16, 11.27)),
    "gcn": ((34.72, 17.87), (37.76, 20.66), (31.30, 15.89)),
    "gat": ((41.40, 24.01), (37.83, 20.87), (29.38, 14.03)),
    "rgcn": ((41.83, 24.35), (39.04, 21.71), (29.84, 14.76)),
    "hgt": ((42.57, 25.00), (37.31, 20.26), (28.43, 13.70)),
    NO_IDENTITY: ((41.81, 24.53), (40.17, 23.27), (31.57, 16.33)),
    "gtn": ((42.75, 25.35), (39.60, 22.70), (31.76, 16.49)),
    "fast_gtn": ((42.32, 24.96), (38.65, 21.72), (32.02, 16.72)),
}
_TABLE_4 = {
    "mlp": (55.10, 82.42, 59.23, 55.78, 69.10, 40.38),
    "node2vec": (45.86, 61.23, 33.51, 54.30, 46.50, 40.87),
    "gcn": (57.30, 75.25, 68.42, 79.65, 52.95, 42.56),
    "gat": (53.06, 55.63, 68.92, 79.85, 36.10, 40.63),
    "jk_net": (57.15, 68.47, 68.11, 79.57, 54.01, 42.38),
    "mixhop": (55.15, 66.96, 67.74, 79.32, 48.91, 42.52),
    "gcnii": (56.25, 64.17, 68.11, 79.24, 33.71, 42.36),
    NO_IDENTITY: (61.51, 60.73, 64.64, 76.97, 30.65, 42.95),
    "gtn": (61.80, 90.30, 68.68, 79.99, 76.77, 42.64),
    "fast_gtn_non_local": (57.73, 87.97, 69.14, 80.29, 73.64, 42.40),
}
_WITHOUT_NON_LOCAL = {
    "blogcatalog": 88.96,
    "flickr": 75.01,
    "airport": 56.60,
    "citeseer": 68.32,
    "cora": 79.17,
    "ppi": 40.95,
    "dblp": 94.46,
    "acm": 91.79,
    "imdb": 60.23,
}
# attention on the non-local relation in the first and the second layer, that is the first and second hop applied
NON_LOCAL_ATTENTION = {
    "blogcatalog": (0.012, 0.005),
    "flickr": (0.004, 0.005),
    "airport": (0.153, 0.158),
    "citeseer": (0.099, 0.095),
    "cora": (0.146, 0.152),
    "ppi": (0.243, 0.223),
    "dblp": (0.048, 0.049),
    "acm": (0.026, 0.026),
    "imdb": (0.066, 0.069),
}
# FastGTN against GTN on PPI, the largest gap of figures 5 and 7: how many times faster, and smaller
SPEED_UP = {"inference": {"time": 230, "memory": 100}, "training": {"time": 150, "memory": 60}}

MICRO_F1: dict[tuple[str, str], float] = {
    **{(d, m): row[n] for m, row in _TABLE_3.items() for n, d in enumerate(_HETEROGENEOUS)},
    **{(d, m): row[n] for m, row in _TABLE_4.items() for n, d in enumerate(_HOMOGENEOUS)},
    **{(d, "fast_gtn"): score for d, score in _WITHOUT_NON_LOCAL.items()},
}
BASELINES = tuple(name for name in dict.fromkeys([*_TABLE_4, *_TABLE_3]) if name not in OURS)
ABSENT = tuple(name for name in DATASETS if name not in HERE)


def in_order(models: Iterable[str]) -> list[str]:
    """Models as tables list them: the paper's baselines in its order, other baselines, then our models."""
    known = list(models)
    others = [name for name in known if name not in (*BASELINES, *OURS)]
    return [name for name in (*BASELINES, *others, *OURS) if name in known]


def title_of(model: str) -> str:
    """The name of a model in a table."""
    from fastgtn.config.models import title_of as title_of_model  # lists of names are read without importing torch

    return "GTN₋I" if model == NO_IDENTITY else title_of_model(model)
