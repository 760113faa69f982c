"""The ordered set of relations of a graph, as one immutable object with a small algebra."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from fastgtn.errors import InputError, nearest
from fastgtn.notebook import html_table
from fastgtn.relations import products
from fastgtn.relations.build import EdgeList, assemble, edges_of_data, edges_of_hetero
from fastgtn.relations.checks import check_channels, check_counts, check_filters, check_nodes, check_non_negative
from fastgtn.relations.hops import Hops
from fastgtn.relations.matrix import RelationMatrix
from fastgtn.relations.normalize import jointly_divided, log_divided, row_divided, symmetrically_divided
from fastgtn.relations.operator import Edges, Operator
from fastgtn.relations.schema import ANY, IDENTITY, Relation, position_of
from fastgtn.relations.shown import hetero_of, nodes_in_words, relation_rows
from fastgtn.relations.times import Times

EmptyRows = Literal["self", "zero"]


@dataclass(frozen=True, eq=False, repr=False)
class RelationStack:
    r"""The relations :math:`\mathbb{A} = (A_1, …, A_T)` of a graph; the identity, when present, is the last.

    :math:`A_t[i, j]` weighs the message from node j to node i. Nodes of all types share one numbering, type
    after type. A sampled batch and a learned meta-path graph are stacks as well. A stack never changes, and
    keeps no reference to the graph it was built from.
    """

    node_types: tuple[str, ...]
    node_counts: tuple[int, ...]
    relations: tuple[Relation, ...]
    operator: Operator

    def __post_init__(self) -> None:
        check_counts(dict(zip(self.node_types, self.node_counts, strict=True)))
        shape = (self.operator.num_rows, self.operator.num_cols, self.operator.num_relations)
        if shape != (self.num_nodes, self.num_nodes, len(self.relations)):
            raise InputError(
                f"{self.num_nodes} nodes and {len(self.relations)} relations do not fit an operator of "
                f"{shape[0]} rows, {shape[1]} columns and {shape[2]} relations. Use RelationStack.from_edges."
            )

    @staticmethod
    def from_hetero(
        data: HeteroData,
        *,
        identity: bool = True,
        reverse: bool = False,
        binarize: bool = False,
        times: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> RelationStack:
        """From a heterogeneous graph: one relation per edge type, weighed by its `edge_weight` if it has one.

        Args:
            identity: Append the identity, so that paths shorter than the number of hops can be learned.
            reverse: Add the reverse of every relation that is not symmetric.
            binarize: Ignore weights.
            times: Read the `time` of nodes and edges, for :meth:`before`.
        """
        edges, counts = edges_of_hetero(data)
        when = Times.of_hetero(data) if times else None
        return RelationStack(
            *assemble(edges, counts, identity=identity, reverse=reverse, binarize=binarize, dtype=dtype, times=when)
        )

    @staticmethod
    def from_data(
        data: Data, *, identity: bool = True, binarize: bool = False, dtype: torch.dtype = torch.float32
    ) -> RelationStack:
        """From a homogeneous graph: one relation, and the identity."""
        edges, counts = edges_of_data(data)
        return RelationStack(*assemble(edges, counts, identity=identity, reverse=False, binarize=binarize, dtype=dtype))

    @staticmethod
    def from_edges(
        edges: Mapping[tuple[str, str, str], EdgeList],
        num_nodes: Mapping[str, int],
        *,
        identity: bool = True,
        reverse: bool = False,
        binarize: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> RelationStack:
        """From edge lists: ``{(source, name, target): edge_index or (edge_index, edge_weight)}`` and node counts."""
        lists = {Relation(*relation): value for relation, value in edges.items()}
        return RelationStack(
            *assemble(lists, num_nodes, identity=identity, reverse=reverse, binarize=binarize, dtype=dtype)
        )

    def __len__(self) -> int:
        return len(self.relations)

    @property
    def num_nodes(self) -> int:
        return sum(self.node_counts)

    @property
    def num_edges(self) -> int:
        """Stored edges; the identity and the self-loops of empty rows are not stored."""
        return sum(edges.segments.num_edges for edges in self.operator.edges)

    @property
    def has_identity(self) -> bool:
        return IDENTITY in self.relations

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(relation) for relation in self.relations)

    @property
    def dtype(self) -> torch.dtype:
        return self.operator.edges[0].values.dtype

    @property
    def device(self) -> torch.device:
        return self.operator.edges[0].values.device

    def nodes_of(self, node_type: str) -> range:
        """The numbers of the nodes of one type."""
        if node_type not in self.node_types:
            raise InputError(f'no node type "{node_type}"; {nearest(node_type, self.node_types)}')
        position = self.node_types.index(node_type)
        start = sum(self.node_counts[:position])
        return range(start, start + self.node_counts[position])

    def index(self, name: str) -> int:
        """The position of a relation, by its name or by "source-name-target"."""
        return position_of(name, self.relations)

    def __getitem__(self, relation: int | str) -> RelationMatrix:
        position = self.index(relation) if isinstance(relation, str) else range(len(self))[relation]
        return RelationMatrix(self.relations[position], self.operator, position)

    def row_normalized(self, empty_rows: EmptyRows = "self") -> RelationStack:
        r"""Divide every row of every relation by its sum, :math:`D_t^{-1} A_t`.

        Args:
            empty_rows: What a row without edges becomes: ``"self"``, a self-loop of weight 1, so that the
                node keeps its features if a relation does not apply; or ``"zero"``.
        """
        self.require_non_negative("row normalisation")
        return self._with_edges([row_divided(edges) for edges in self.operator.edges], empty_rows)

    def log_normalized(self, empty_rows: EmptyRows = "self") -> RelationStack:
        r"""Divide every row by its sum :math:`s` and multiply it by :math:`\log(1 + s)`.

        A mean over neighbours forgets how many or how much there was; here the logarithm of the sum stays, as in the
        degree scalers of PNA (Corso et al., 2020).

        Args:
            empty_rows: As in :meth:`row_normalized`.
        """
        self.require_non_negative("logarithmic normalisation")
        return self._with_edges([log_divided(edges) for edges in self.operator.edges], empty_rows)

    def symmetrically_normalized(self, empty_rows: EmptyRows = "self") -> RelationStack:
        r"""Divide every entry by the roots of its row sum and its column sum, :math:`D_t^{-1/2} A_t D_t'^{-1/2}`.

        Rows of well-connected nodes keep a larger sum, so degrees are partly preserved, and hubs have less influence.

        Args:
            empty_rows: As in :meth:`row_normalized`.
        """
        self.require_non_negative("symmetric normalisation")
        return self._with_edges([symmetrically_divided(edges) for edges in self.operator.edges], empty_rows)

    def jointly_normalized(self, empty_rows: EmptyRows = "zero") -> RelationStack:
        r"""Divide every entry by the roots of both nodes' degrees in all relations, :math:`D^{-1/2} A_t D'^{-1/2}`.

        Their sum is then the adjacency matrix of a graph convolution. D counts one self-loop per node.
        """
        self.require_non_negative("joint normalisation")
        return self._with_edges(jointly_divided(self.operator.edges, self.num_nodes), empty_rows)

    def _with_edges(self, edges: list[Edges], empty_rows: EmptyRows) -> RelationStack:
        if empty_rows not in ("self", "zero"):
            raise InputError(f'empty_rows must be "self" or "zero", but got {empty_rows!r}.')
        operator = replace(self.operator, edges=tuple(edges))
        if empty_rows == "self":
            operator = operator.with_missing_loops(len(self) - self.has_identity)
        return replace(self, operator=operator)

    def binarized(self) -> RelationStack:
        """Every edge with weight 1."""
        edges = (replace(edges, values=torch.ones_like(edges.values)) for edges in self.operator.edges)
        return replace(self, operator=replace(self.operator, edges=tuple(edges)))

    def before(self, moment: float) -> RelationStack:
        """Only the edges that are older than a moment; edges without a time are always there.

        Filter first and normalise then: degrees must not count later edges.
        """
        edges = tuple(edges.before(moment) for edges in self.operator.edges)
        return replace(self, operator=replace(self.operator, edges=edges))

    def require_non_negative(self, why: str) -> None:
        """Refuse negative weights; the message names the operation that needs degrees."""
        check_non_negative(self.operator.smallest_value, why)

    def _require_same_nodes(self, other: RelationStack) -> None:
        if (self.node_types, self.node_counts) != (other.node_types, other.node_counts):
            mine, theirs = (nodes_in_words(stack.node_types, stack.node_counts) for stack in (self, other))
            raise InputError(f"both stacks must have the same nodes, but they have {mine} and {theirs}.")

    def propagate(self, h: Tensor, filters: Tensor) -> Tensor:
        r"""Send features one hop along softly chosen relations, :math:`h_c \mapsto \sum_t \alpha_{ct} A_t h_c`.

        Args:
            h: Features, shape [N, C, d].
            filters: Weights :math:`\alpha`, shape [C, T]; rows need not sum to one.
        """
        check_filters(filters, self.names)
        check_channels(h, self.num_nodes, filters.size(0))
        return self.operator.apply(h, filters)

    def hops(self, count: int, rows: Tensor | None = None, *, all_columns: bool = False) -> Hops:
        """The maps of `count` hops; with `rows`, only what these nodes depend on (exact, nothing is sampled).

        Args:
            all_columns: Whether the rows depend on all nodes, as with non-local operations.
        """
        if count < 1:
            raise InputError(f"a plan needs at least one hop, but got {count}.")
        if rows is None:
            return Hops.full(self.relations, self.operator, count)
        plan = Hops.over_all_nodes if all_columns else Hops.toward
        return plan(self.relations, self.operator, count, rows)

    def mix(self, filters: Tensor) -> RelationStack:
        r"""Blend the relations into one soft relation per channel.

        .. math:: Q_c = \sum_t \alpha_{ct} A_t

        Args:
            filters: Weights :math:`\alpha`, shape [C, T]; rows need not sum to one.
        """
        check_filters(filters, self.names)
        return self.with_channels(products.mix(self.operator, filters.to(self.device)))

    def compose(self, other: RelationStack) -> RelationStack:
        """Multiply relation by relation, :math:`A_t B_t`: two hops become one."""
        self._require_same_nodes(other)
        if len(self) != len(other):
            raise InputError(f"compose needs stacks of equal length, but got {len(self)} and {len(other)} relations.")
        return self.with_channels(products.compose(self.operator, other.operator))

    def with_channels(self, operator: Operator) -> RelationStack:
        """Other relations over the same nodes, named by number."""
        channels = tuple(Relation(ANY, f"channel {c}", ANY) for c in range(operator.num_relations))
        return RelationStack(self.node_types, self.node_counts, channels, operator)

    def join(self, other: RelationStack) -> RelationStack:
        """Put the relations of two stacks over the same nodes into one; the identity stays last."""
        self._require_same_nodes(other)
        mine, theirs = (len(stack) - stack.has_identity for stack in (self, other))
        identity = self.has_identity or other.has_identity
        relations = self.relations[:mine] + other.relations[:theirs] + (IDENTITY,) * identity
        last = [len(relations) - 1]
        left = self.operator.widened([*range(mine), *last * self.has_identity], len(relations))
        right = other.operator.widened([*range(mine, mine + theirs), *last * other.has_identity], len(relations))
        diagonal = left.diagonal or right.diagonal
        if left.diagonal is not None and right.diagonal is not None:
            diagonal = left.diagonal.merged(right.diagonal)
        operator = replace(left, edges=(*left.edges, *right.edges), diagonal=diagonal)
        return RelationStack(self.node_types, self.node_counts, relations, operator)

    def subset(self, nodes: Tensor) -> RelationStack:
        """The graph between the given nodes. They are numbered type after type, otherwise in the given order."""
        check_nodes(nodes, self.num_nodes)
        ends = torch.tensor(self.node_counts).cumsum(0).to(nodes.device)
        types = torch.bucketize(nodes, ends, right=True)
        nodes = nodes[types.argsort(stable=True)]
        counts = tuple(torch.bincount(types, minlength=len(self.node_types)).tolist())
        rows, _ = self.operator.select_rows(nodes)
        edges = tuple(e.within(nodes.numel()) for e in rows.edges)
        operator = replace(rows, num_cols=nodes.numel(), edges=edges)
        return RelationStack(self.node_types, counts, self.relations, operator)

    def to(self, target: torch.device | str | torch.dtype) -> RelationStack:
        """The same stack on another device or in another precision."""
        return replace(self, operator=self.operator.to(target))

    def to_hetero(self) -> HeteroData:
        """The relations as PyG edge types with weights: one per relation and pair of node types it connects."""
        matrices = [self[t] for t in range(len(self)) if self.relations[t] != IDENTITY]
        return hetero_of(matrices, self.node_types, self.node_counts)

    def __repr__(self) -> str:
        rows = [f"  {ends}  {name}  ({stored})" for ends, name, stored in relation_rows(self.relations, self.operator)]
        return ",\n".join([f"RelationStack({self._size()}", *rows]) + ")"

    def _repr_html_(self) -> str:
        rows = relation_rows(self.relations, self.operator)
        return html_table(f"RelationStack: {self._size()}", ("target ← source", "relation", "stored"), rows)

    def _size(self) -> str:
        return f"{nodes_in_words(self.node_types, self.node_counts)}, {len(self)} relations, {self.num_edges:,} edges"
