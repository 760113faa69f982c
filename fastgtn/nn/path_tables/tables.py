"""Which paths lead to some rows, what their tables would cost, and the tables themselves."""

from __future__ import annotations

import math
import shutil
import tempfile
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.nn.inputs.features import FeatureBlock, Features, Matrix
from fastgtn.nn.meta_path.model import MetaPathModel
from fastgtn.nn.path_tables.rows import UnrolledBlock, UnrolledRows
from fastgtn.relations import Hops, RelationStack
from fastgtn.relations.checks import check_non_negative
from fastgtn.relations.paths.decomposition import Decomposition
from fastgtn.relations.paths.products import PathProducts
from fastgtn.relations.paths.trie import PathTrie, find_words

MOST_PATHS = 20_000
WORK_BYTES = 1e9  # tables of all nodes that are held while those of the rows are computed


def obstacle(model: MetaPathModel) -> str | None:
    """Why a model is not linear before its activation, and what to set; None where it is."""
    if model.num_layers > 1:
        return f"the model has {model.num_layers} layers: set model.num_layers = 1"
    if model.sees_all_nodes:
        return "non-local edges depend on the weights: set model.non_local.enabled = false"
    if model.dropout:
        return (
            f"dropout {model.dropout:g} changes the features in every step: set model.dropout = 0 "
            "(model.head_dropout may stay)"
        )
    if model.input.encoder != "linear":
        return 'a ReLU comes before the hops: set model.encoder = "linear"'
    if model.input.embedded:
        types = ", ".join(model.input.embedded)
        return f"node types without features learn embeddings ({types}): give them features"
    return None


@dataclass(frozen=True, eq=False)
class Unrolling:
    """The paths of some rows, found but not yet computed: enough to say what that would cost."""

    hops: Hops
    rows: Tensor
    features: Features
    kinds: Tensor  # the feature block of every node of the graph
    parts: Decomposition
    trie: PathTrie
    means: bool  # GTN divides by degrees

    @staticmethod
    def of(
        model: MetaPathModel,
        stack: RelationStack,
        rows: Tensor,
        features: Features | Tensor,
        *,
        most_bytes: float = math.inf,
    ) -> Unrolling:
        """Look for the paths, and give up where they are too many or their tables would be too large."""
        reason = obstacle(model)
        if reason is not None:
            raise InputError(f"only a model that is linear up to its activation can be unrolled; {reason}.")
        features, means = model.input.standardized(Features.of(features)), model.divides_by_degrees
        hops = stack.hops(model.num_hops, rows)
        hops.require_relations(model.relations)
        if means:
            check_non_negative(min(operator.smallest_value for operator in hops), "GTN divides by degrees, so it")
        kinds = torch.zeros(stack.num_nodes, dtype=torch.int64)
        for number, block in enumerate(features.blocks):
            kinds[slice(None) if block.places is None else block.places] = number
        narrowest = min((block.width for block in features.blocks if block.width), default=1)
        most = min(MOST_PATHS, most_bytes / max(1, 4 * len(rows) * narrowest))
        parts = Decomposition.of(stack.node_types, stack.node_counts, hops)
        trie = find_words(parts, kinds[hops.inputs], num_kinds=len(features.blocks), signed=not means, most=int(most))
        return Unrolling(hops, rows, features, kinds, parts, trie, means)

    @property
    def num_paths(self) -> int:
        """Tables per row."""
        return sum(len(self.trie.ending_at(number)) for number in range(len(self.features.blocks)))

    @property
    def table_size(self) -> int:
        """Numbers in all tables."""
        per_row = [len(self.trie.ending_at(n)) * block.width for n, block in enumerate(self.features.blocks)]
        return len(self.rows) * sum(per_row)

    @property
    def mixed_size(self) -> int:
        """Numbers that are left of the tables for each channel, before the product with its weights."""
        widths = [b.width for n, b in enumerate(self.features.blocks) if len(self.trie.ending_at(n))]
        return len(self.rows) * sum(widths)

    @property
    def one_time_cost(self) -> int:
        """Numbers that are read to compute the tables."""
        return sum(self._products(n).cost * block.width for n, block in enumerate(self.features.blocks))

    def entries(self, nodes: Tensor | None) -> float:
        """Stored feature entries of some nodes, as if all nodes of a block had equally many; None for all."""
        number = torch.bincount(self.kinds, minlength=len(self.features.blocks)).clamp(min=1)
        mine = number if nodes is None else torch.bincount(self.kinds[nodes], minlength=len(number))
        stored = [_num_entries(block.matrix) for block in self.features.blocks]
        return float((torch.tensor(stored) * mine / number).sum())

    def compute(self, *, on_disk: bool = False) -> UnrolledRows:
        """Compute the tables, in memory or in a file that goes with them."""
        inputs = self.features.select(self.hops.inputs)
        blocks = [
            self._block(number, block, on_disk=on_disk)
            for number, block in enumerate(inputs.blocks)
            if len(self.trie.ending_at(number))
        ]
        return UnrolledRows(self.hops.relations, self.rows, self.trie, tuple(blocks))

    def _products(self, number: int) -> PathProducts:
        return PathProducts(self.parts, [self.trie.words[w] for w in self.trie.ending_at(number).tolist()])

    @torch.no_grad()
    def _block(self, number: int, block: FeatureBlock, *, on_disk: bool) -> UnrolledBlock:
        matrix, words, products = block.matrix, self.trie.ending_at(number), self._products(number)
        assert matrix is not None  # types without features were refused
        dtype = matrix.dtype if isinstance(matrix, Tensor) else matrix.values.dtype
        nodes = slice(None) if block.places is None else block.places
        tables = _empty((len(self.rows), len(words), block.width), dtype, on_disk=on_disk)
        degrees = self._degrees(nodes, products, len(words)) if self.means else None
        # sums grow like the number of paths: until they are divided by it they are in float64
        working = torch.float64 if self.means else dtype
        held = (2 + len(self.parts)) * self.hops.num_inputs * working.itemsize  # bytes per column
        at_once = max(1, int(WORK_BYTES / max(1, held)))
        for first in range(0, block.width, at_once):
            part = slice(first, min(first + at_once, block.width))
            x = torch.zeros(self.hops.num_inputs, part.stop - first, dtype=working)
            x[nodes] = _columns(matrix, part).to(working)
            for place, targets, product in products.of(x):
                if degrees is not None:
                    mine = degrees[targets, place]
                    product = product / torch.where(mine > 0, mine, 1.0)[:, None]
                tables[targets, place, part] = product.to(dtype)
        return UnrolledBlock(block.key, words, tables, degrees)

    def _degrees(self, nodes: slice | Tensor, products: PathProducts, count: int) -> Tensor:
        """The weight of all paths of each word that start at a row, float64 [B, P]."""
        ones = torch.zeros(self.hops.num_inputs, 1, dtype=torch.float64)
        ones[nodes] = 1
        degrees = torch.zeros(len(self.rows), count, dtype=torch.float64)
        for place, targets, column in products.of(ones):
            degrees[targets, place] = column[:, 0]
        return degrees


def _num_entries(matrix: Matrix | None) -> int:
    if matrix is None:
        return 0
    return matrix.numel() if isinstance(matrix, Tensor) else matrix.values.numel()


def _columns(matrix: Matrix, part: slice) -> Tensor:
    if isinstance(matrix, Tensor):
        return matrix[:, part]
    return matrix @ torch.eye(matrix.shape[1], dtype=matrix.values.dtype)[:, part]


def _empty(shape: tuple[int, ...], dtype: torch.dtype, *, on_disk: bool) -> Tensor:
    """Room for tables. A file has no name, so nothing is left of it however the process ends."""
    size = math.prod(shape) * dtype.itemsize
    if not on_disk or not size:
        return torch.zeros(shape, dtype=dtype)
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if size > free:
        raise InputError(
            f"the tables of unrolled rows take {size / 1e9:.1f} GB, but {folder} has {free / 1e9:.1f} GB left. "
            'Set TMPDIR to a folder with more room, or model.propagation = "implicit".'
        )
    with tempfile.TemporaryFile(prefix="fastgtn-", dir=folder) as file:
        return torch.from_numpy(np.memmap(file, torch.empty(0, dtype=dtype).numpy().dtype, "w+", shape=shape))
