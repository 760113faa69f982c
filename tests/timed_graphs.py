"""A graph whose future gives the labels away: verdicts come after the moment at which a customer is judged."""

import copy

import torch
from torch_geometric.data import HeteroData

from fastgtn.data import NodeTask


def verdicts(seed: int = 0, *, customers: int = 240, shops: int = 40, moments: int = 4) -> tuple[HeteroData, NodeTask]:
    """Customers visit shops before their moment, which say a little about them; courts tell the label, but later.

    Customers are judged at the moments 10, 20, 30 …; the split is by time. After its moment every customer visits more
    shops and is connected with the court of its class.
    """
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (customers,), generator=g)
    when = (1 + torch.arange(customers) * moments // customers) * 10.0
    taste = torch.rand(shops, generator=g) < 0.5
    past, past_time = [], []
    for customer in range(customers):
        liked = (taste == bool(y[customer])).nonzero()[:, 0]
        for _ in range(3):
            honest = torch.rand(1, generator=g) < 0.4
            pool = liked if honest and len(liked) else torch.arange(shops)
            past.append((customer, int(pool[torch.randint(len(pool), (1,), generator=g)])))
            past_time.append(float(when[customer]) - 1 - 5 * float(torch.rand(1, generator=g)))
    later = torch.stack([torch.arange(customers), torch.randint(shops, (customers,), generator=g)])
    graph = HeteroData()
    graph.name = "verdicts"
    graph["customer"].x = torch.randn(customers, 3, generator=g)
    graph["shop"].x = torch.cat([taste[:, None] + 0.3 * torch.randn(shops, 1, generator=g), torch.ones(shops, 1)], 1)
    graph["court"].x = torch.eye(2)
    visits = torch.cat([torch.tensor(past).T, later], 1)
    visit_time = torch.cat([torch.tensor(past_time), when + 3])
    judged, judged_time = torch.stack([torch.arange(customers), y]), when + 1
    for name, target, edges, time in (
        ("visits", "shop", visits, visit_time),
        ("judged", "court", judged, judged_time),
    ):
        for edge_type, index in (
            (("customer", name, target), edges),
            ((target, f"rev_{name}", "customer"), edges.flip(0)),
        ):
            graph[edge_type].edge_index, graph[edge_type].time = index, time
    graph["customer"].as_of = when
    third = customers // moments
    order = torch.arange(customers)
    train, val = order[: third * (moments - 2)], order[third * (moments - 2) : third * (moments - 1)]
    task = NodeTask.from_labels("customer", "single", y, train=train, val=val, test=order[third * (moments - 1) :])
    return graph, task


def with_other_future(graph: HeteroData, moment: float, *, seed: int = 0, add: bool = True) -> HeteroData:
    """The same graph up to a moment; later edges are removed, and others are put in their place."""
    g = torch.Generator().manual_seed(seed)
    other = copy.copy(graph)
    for edge_type in graph.edge_types:
        store = graph[edge_type]
        kept = ~(store.time >= moment)
        edges, time = store.edge_index[:, kept], store.time[kept]
        if add:
            counts = (int(graph[edge_type[0]].num_nodes), int(graph[edge_type[2]].num_nodes))
            new = torch.stack([torch.randint(count, (25,), generator=g) for count in counts])
            edges = torch.cat([edges, new], 1)
            time = torch.cat([time, moment + torch.randint(3, (25,), generator=g)])
        other[edge_type].edge_index, other[edge_type].time = edges, time
    return other


def without_moments(graph: HeteroData) -> HeteroData:
    """The same graph in which everybody sees everything."""
    bare = copy.copy(graph)
    del bare["customer"].as_of
    return bare


def seeing_everything(graph: HeteroData) -> HeteroData:
    """The same graph whose customers have moments that hide nothing."""
    free = copy.copy(graph)
    free["customer"].as_of = torch.full_like(graph["customer"].as_of, torch.nan)
    return free
