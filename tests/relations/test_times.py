"""Edges have times, a stack before a moment lacks the later ones, and rows see the graph at their own moment."""

import copy
import pickle

import pytest
import torch
from graphs import randn, random_filters
from torch_geometric.data import HeteroData

from fastgtn import InputError, RelationStack
from fastgtn.relations import LayerSampler, NeighborSampler
from fastgtn.relations.operator import Edges
from fastgtn.relations.sampling.moments import MomentSampler, by_moment, rounded_down, seen_from

LATEST = 10


def timed_graph(seed: int = 0, *, nodes: int = 12, edges: int = 40) -> HeteroData:
    """Two node types and two relations; some edges and some nodes have no time."""
    g = torch.Generator().manual_seed(seed)
    graph = HeteroData()
    graph["a"].num_nodes, graph["b"].num_nodes = nodes, nodes // 2
    for source, name, target in (("a", "to", "b"), ("b", "from", "a"), ("a", "knows", "a")):
        ends = [torch.randint(graph[t].num_nodes, (edges,), generator=g) for t in (source, target)]
        store = graph[source, name, target]
        store.edge_index = torch.stack(ends)
        store.edge_weight = torch.rand(edges, generator=g, dtype=torch.float64) + 0.1
        store.time = torch.randint(LATEST, (edges,), generator=g).double()
        store.time[torch.rand(edges, generator=g) < 0.2] = torch.nan
    graph["b"].time = torch.randint(LATEST, (graph["b"].num_nodes,), generator=g)
    return graph


def without_later(graph: HeteroData, moment: float) -> HeteroData:
    """The same graph in which the edges that a moment does not see were never written, edge by edge."""
    kept = copy.deepcopy(graph)
    for edge_type in graph.edge_types:
        store = graph[edge_type]
        born = graph[edge_type[0]].time if "time" in graph[edge_type[0]] else None
        stays = [
            not float(time) >= moment and (born is None or not float(born[sender]) >= moment)
            for sender, time in zip(store.edge_index[0].tolist(), store.time.tolist(), strict=True)
        ]
        for name in ("edge_index", "edge_weight", "time"):
            kept[edge_type][name] = store[name][..., torch.tensor(stays)]
    return kept


def stack_of(graph: HeteroData, *, times: bool = True, reverse: bool = False) -> RelationStack:
    return RelationStack.from_hetero(graph, times=times, reverse=reverse, dtype=torch.float64)


def dense(stack: RelationStack) -> torch.Tensor:
    return torch.stack([stack[t].to_dense() for t in range(len(stack))])


@pytest.mark.parametrize("moment", [0.0, 4.0, 5.5, 99.0])
def test_before_a_moment_later_edges_were_never_there(moment: float) -> None:
    graph = timed_graph()
    expected = dense(stack_of(without_later(graph, moment), times=False))
    torch.testing.assert_close(dense(stack_of(graph).before(moment)), expected)
    if moment == 99:
        torch.testing.assert_close(expected, dense(stack_of(graph, times=False)))


def test_a_reversed_edge_has_the_time_of_its_edge_and_of_its_new_sender() -> None:
    graph = HeteroData()
    graph["a"].num_nodes, graph["b"].num_nodes = 2, 2
    graph["a"].time = torch.tensor([1.0, 7.0])
    graph["a", "to", "b"].edge_index = torch.tensor([[0, 1], [0, 1]])
    graph["a", "to", "b"].time = torch.tensor([3.0, torch.nan])
    stack = stack_of(graph, reverse=True)
    assert [stack.before(m)["to"].to_dense().sum().item() for m in (3.0, 3.5, 7.0, 7.5)] == [0, 1, 1, 2]
    assert [stack.before(m)["rev_to"].to_dense().sum().item() for m in (3.0, 3.5)] == [1, 2]


def test_times_follow_the_edges_through_the_algebra() -> None:
    stack = stack_of(timed_graph())
    nodes = torch.tensor([0, 3, 4, 7, 12, 14])
    part = stack.subset(nodes)
    assert part.operator.edges[0].times is not None
    torch.testing.assert_close(dense(part.before(5.0)), dense(stack.before(5.0).subset(nodes)))
    again = pickle.loads(pickle.dumps(stack))
    torch.testing.assert_close(dense(again.before(5.0)), dense(stack.before(5.0)))
    assert stack.to(torch.float32).operator.edges[0].times.dtype == torch.float64
    torch.testing.assert_close(dense(stack.binarized().before(5.0)), dense(stack.before(5.0).binarized()))


@pytest.mark.parametrize("normalize", ["row", "symmetric", "none"])
def test_rows_see_the_graph_at_their_own_moment(normalize: str) -> None:
    """One stack of all moments side by side gives what a separate graph per moment gives, values and gradients."""

    def prepare(stack: RelationStack) -> RelationStack:
        if normalize == "symmetric":
            return stack.symmetrically_normalized()
        return stack.row_normalized() if normalize == "row" else stack

    graph, hops = timed_graph(edges=20), 2
    stack = stack_of(graph)
    rows = torch.tensor([5, 0, 2, 9, 11])
    moments = torch.tensor([4.0, 9.0, 4.0, torch.inf, 1.0], dtype=torch.float64)
    h, filters = randn(stack.num_nodes, 2, 3), random_filters(2, len(stack))
    h.requires_grad_()

    def twice(stack: RelationStack, h: torch.Tensor) -> torch.Tensor:
        return stack.propagate(stack.propagate(h, filters), filters)

    for pruned in (hops, None):
        batch = seen_from(stack, rows, moments, hops=pruned, prepare=prepare)
        found = twice(batch.stack, h[batch.nodes])[batch.targets]
        expected = torch.stack(
            [
                twice(prepare(stack_of(without_later(graph, moment), times=False)), h)[row]
                for row, moment in zip(rows.tolist(), moments.tolist(), strict=True)
            ]
        )
        torch.testing.assert_close(found, expected)
        weight = randn(*found.shape, seed=1)
        gradients = [torch.autograd.grad((values * weight).sum(), h)[0] for values in (found, expected)]
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    "build",
    [
        lambda stack: NeighborSampler(stack, [2, 2]),
        lambda stack: NeighborSampler(stack, [None, None]),
        lambda stack: LayerSampler(stack, 2, 2),
    ],
)
def test_sampled_parts_hold_older_edges_only_and_later_ones_change_nothing(build) -> None:
    graph = timed_graph(nodes=20, edges=120)
    targets = torch.arange(10)
    moments = torch.full((30,), torch.inf, dtype=torch.float64)
    moments[targets] = torch.arange(10).double() // 3 + 3
    whole = MomentSampler(build, stack_of(graph), moments).sample(targets, 7)
    assert torch.equal(whole.nodes[whole.targets], targets)
    for moment, mine in by_moment(moments[targets]):
        past = without_later(graph, moment)
        alone = MomentSampler(build, stack_of(past), moments)
        part = alone.sample(targets[moments[targets] <= moment], 7)  # the seeds count the moments of a batch
        for target in targets[mine].tolist():
            one, other = (_neighbours(batch, target) for batch in (whole, part))
            assert one == other
    assert sum(len(_neighbours(whole, t)) for t in range(10))


def _neighbours(batch, target: int) -> list[tuple[int, int, float]]:
    row = int(batch.targets[(batch.nodes[batch.targets] == target).nonzero()[0, 0]])
    found = []
    for t in range(len(batch.stack) - 1):
        rows, cols, values = batch.stack[t].coordinates()
        mine = rows == row
        found += [(t, int(batch.nodes[c]), float(v)) for c, v in zip(cols[mine], values[mine], strict=True)]
    return sorted(found)


def test_moments_are_only_ever_rounded_down() -> None:
    moments = torch.tensor([5.0, 1.0, 9.0, 3.0, 7.0, torch.inf, 2.0])
    few = rounded_down(moments, 3)
    assert len(few.unique()) <= 3
    assert bool((few <= moments).all())
    assert few.min() == moments.min()
    assert rounded_down(moments, 7) is moments


@pytest.mark.parametrize(
    ("time", "message"),
    [
        (
            torch.zeros(2, 3),
            r'relation "to": time must be one number each, shape \[2\], NaN for none, but got \(2, 3\)',
        ),
        (torch.zeros(3), r"shape \[2\], NaN for none, but got \(3,\)"),
        (["x", "y"], r"NaN for none, but got list"),
        (torch.tensor([1.0, torch.inf]), r'relation "to": time has infinite values; NaN means none'),
    ],
)
def test_times_that_are_no_times_are_refused(time, message: str) -> None:
    graph = HeteroData()
    graph["a"].num_nodes, graph["b"].num_nodes = 2, 2
    graph["a", "to", "b"].edge_index = torch.tensor([[0, 1], [0, 1]])
    graph["a", "to", "b"].time = time
    with pytest.raises(InputError, match=message):
        stack_of(graph)
    assert stack_of(graph, times=False).num_edges == 2


def test_edges_of_a_stack_refuse_times_of_another_length() -> None:
    edges = stack_of(timed_graph()).operator.edges[0]
    with pytest.raises(InputError, match=r"one float64 time each, shape \[120\], NaN for edges that are always there"):
        Edges(edges.segments, edges.values, 0, torch.zeros(3, dtype=torch.float64))
