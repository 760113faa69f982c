"""An estimate of the memory that training needs, from sizes alone and before anything is built.

The numbers per edge and the counts of tables were measured on graphs of 0.1 to 28 million edges; tests and
`make bench-large` compare the estimate with what a run takes. Memory that is already in use is not counted.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from fastgtn.config import Config
from fastgtn.config.batch_options import BatchOptions
from fastgtn.data import NodeTask
from fastgtn.nn import NodeClassifier
from fastgtn.nn.inputs.features import Features, SparseMatrix
from fastgtn.relations import RelationStack
from fastgtn.relations.sampling.entry import GraphSize, samplers

FLOAT = 4
BUILD, STORE, NORMALIZED = 92, 41, 16  # bytes per edge: while a stack is built, after that, and normalised beside it
PLANNED = 65  # bytes per edge of a plan with its transpose
PASS_TABLES = 5  # tables of hidden features that a pass without gradients holds at its peak
GRADIENT_TABLES = 3  # tables of a pass with gradients, in addition to one per hop
WEIGHT_COPIES = 7  # weights, gradients, two of Adam, the best, their mean, and one while saving
LOGIT_COPIES = 3
SPARSE = 40  # bytes per stored entry of gathered sparse features
COPIED = ("row", "count", "log")  # scalings whose result is a second table of features
DROPPED = 1.0  # a copy of the features without what was dropped
MOST_COUNTED_EDGES = 2e8  # the degrees of larger graphs are not counted for an estimate
SUGGESTED = BatchOptions(size=1024)
PASS_BYTES = 4e9  # limit of one inference pass; fixed, so that results do not depend on the free memory


@dataclass(frozen=True)
class Sizes:
    """The sizes of a graph that the estimate uses."""

    nodes: int
    edges: int
    node_types: int
    feature_bytes: float  # of all nodes, gathered in single precision
    embedded: int  # nodes with a learned embedding
    feature_widths: int  # of all blocks together
    mean_draws: tuple[float, ...]  # of each sampling round, edges drawn by a node


@dataclass(frozen=True)
class MemoryPlan:
    """Estimated bytes in addition to the current memory of the process."""

    graph: float  # relations and weights: needed in every mode
    full_batch: float
    mini_batch: float
    inference: float

    def to_json(self) -> dict[str, float]:
        """In GB."""
        parts = {"full_batch": self.full_batch, "mini_batch": self.mini_batch, "inference": self.inference}
        return {f"{name}_gb": round((self.graph + value) / 1e9, 3) for name, value in parts.items()}


def plan_memory(graph: HeteroData, task: NodeTask, config: Config) -> MemoryPlan:
    """The memory of training on a graph in each mode, with the configured batch size or a usual one."""
    batch = config.batch if config.batch.size else SUGGESTED
    batch = batch.model_copy(update={"size": min(batch.size, int(graph[task.target].num_nodes or 0))})
    hops, tables = config.model.num_hops, config.model.num_tables
    sizes = sizes_of(graph, config, batch, hops)
    width = config.model.floats_per_node
    weights = (sizes.feature_widths + sizes.embedded) * width + config.model.hidden * task.num_classes
    copied = sizes.feature_bytes if config.features.normalize in COPIED else 0.0
    everything = max(BUILD * sizes.edges, STORE * sizes.edges + copied + weights * FLOAT * WEIGHT_COPIES)
    drop = DROPPED if config.model.dropout else 0.0
    all_rows = sizes.nodes * width * FLOAT
    messages = FLOAT * config.model.floats_per_edge  # per edge

    full = sizes.edges * (NORMALIZED + PLANNED + messages) + sizes.feature_bytes * (1 + drop)
    full += all_rows * (tables + GRADIENT_TABLES) + LOGIT_COPIES * FLOAT * len(task.train) * task.num_classes
    size = GraphSize(sizes.nodes, sizes.node_types, batch.size, sizes.mean_draws)
    nodes = samplers()[batch.sampler].num_nodes(batch, size, hops)
    share = nodes / max(sizes.nodes, 1)
    drawn = min(nodes * max(sizes.mean_draws, default=1.0), sizes.edges)
    mini = share * sizes.feature_bytes * (1 + batch.prefetch + drop) + drawn * (PLANNED + messages)
    mini += share * all_rows * (tables + GRADIENT_TABLES) + LOGIT_COPIES * FLOAT * batch.size * task.num_classes
    mini += 4 * FLOAT * sizes.nodes * (1 + batch.prefetch)  # numbers of nodes, of each thread that samples
    one_pass = min(all_rows * PASS_TABLES + sizes.edges * (NORMALIZED + messages), PASS_BYTES)
    if config.batch.eval == "batches":
        one_pass = share * (all_rows * PASS_TABLES + sizes.feature_bytes * (1 + batch.prefetch))
    kept = graph[task.target].num_nodes * width * FLOAT
    return MemoryPlan(everything, full, mini, one_pass + kept)


def sizes_of(graph: HeteroData, config: Config, batch: BatchOptions, hops: int) -> Sizes:
    """The sizes of a graph. Its features are not read, and errors are reported elsewhere."""
    widths, entries, embedded = 0, 0.0, 0
    counts = {node_type: int(graph[node_type].num_nodes or 0) for node_type in graph.node_types}
    for node_type, count in counts.items():
        x = graph[node_type].get("x")
        if not isinstance(x, Tensor) or x.dim() != 2:
            embedded += count
            continue
        widths += x.size(1)
        entries += FLOAT * x.numel() if x.layout == torch.strided else SPARSE * stored_entries(x)
    ends = [(edge_type[2], graph[edge_type].edge_index[1]) for edge_type in graph.edge_types]
    edges = sum(end.numel() for _, end in ends)
    return Sizes(
        sum(counts.values()),
        edges * (2 if config.graph.reverse else 1),
        len(counts),
        entries,
        embedded,
        widths,
        mean_draws(counts, ends, batch, hops, edges),
    )


def mean_draws(
    counts: dict[str, int], ends: list[tuple[str, Tensor]], batch: BatchOptions, hops: int, edges: int
) -> tuple[float, ...]:
    """The number of edges that a node draws in each round: the fan-out, or all its edges.

    Args:
        ends: Of each relation, the type and the numbers of the nodes at which its edges end.
    """
    fanouts = [math.inf if fanout is None else float(fanout) for fanout in batch.fanouts_of(hops)]
    if batch.per_relation:
        fanouts = [fanout * len(ends) for fanout in fanouts]
    if edges > MOST_COUNTED_EDGES or not sum(counts.values()):
        return tuple(min(fanout, edges / max(sum(counts.values()), 1)) for fanout in fanouts)
    degrees = {node_type: torch.zeros(max(count, 1), dtype=torch.int64) for node_type, count in counts.items()}
    for node_type, end in ends:
        size = len(degrees[node_type])
        degrees[node_type] += torch.bincount(end.long().clamp(0, size - 1), minlength=size)
    degree = torch.cat(list(degrees.values())).double()
    return tuple(float(degree.clamp(max=fanout).mean()) for fanout in fanouts)


def stored_entries(x: Tensor) -> int:
    """Entries of sparse features."""
    return x.values().numel() if x.layout == torch.sparse_csr else int(x._nnz())


def pass_bytes(stack: RelationStack, model: NodeClassifier) -> float:
    """The peak of one pass over every row of a graph, without gradients and without the features themselves."""
    channels = int(getattr(model.backbone, "num_channels", 1))
    return float(stack.num_nodes * channels * model.backbone.out_features * FLOAT * PASS_TABLES)


def feature_bytes(features: Features) -> float:
    """All features in memory as numbers of single precision."""
    total = 0.0
    for block in features.blocks:
        if isinstance(block.matrix, SparseMatrix):
            total += 3 * FLOAT * block.matrix.values.numel()
        elif block.matrix is not None:
            total += FLOAT * block.matrix.numel()
    return total
