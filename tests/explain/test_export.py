"""Meta-paths in other programs give the same edges as ours."""

import duckdb
import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.transforms import AddMetaPaths

from fastgtn.explain.export import cypher, is_exportable, pyg_metapaths, pyg_text, sql
from fastgtn.nn import NON_LOCAL
from fastgtn.relations import Relation, RelationStack
from fastgtn.relations.paths.metapath import MetaPath

COUNTS = {"author": 5, "paper": 6, "venue": 3}


def lopsided_graph():
    """No relation is the reverse of another, so that a wrong direction shows."""
    g = torch.Generator().manual_seed(0)
    graph = HeteroData()
    for node_type, count in COUNTS.items():
        graph[node_type].num_nodes = count
    for source, name, target in [("paper", "PA", "author"), ("venue", "VP", "paper"), ("author", "AV", "venue")]:
        edges = {
            (
                int(torch.randint(COUNTS[source], (1,), generator=g)),
                int(torch.randint(COUNTS[target], (1,), generator=g)),
            )
            for _ in range(9)
        }
        graph[source, name, target].edge_index = torch.tensor(sorted(edges)).T.contiguous()
    return graph


PATH = MetaPath.of([("paper", "PA", "author"), ("venue", "VP", "paper"), ("author", "AV", "venue")])


def composed(stack, path):
    """The matrix of the path between the nodes of its two ends."""
    matrix = torch.eye(stack.num_nodes)
    for relation in path.relations:
        matrix = matrix @ stack[str(relation)].to_dense()
    rows, cols = stack.nodes_of(path.types[0]), stack.nodes_of(path.types[-1])
    return matrix[rows.start : rows.stop, cols.start : cols.stop]


def test_pyg_composes_the_same_edges():
    graph = lopsided_graph()
    stack = RelationStack.from_hetero(graph)
    metapaths = pyg_metapaths([PATH])
    assert metapaths == [[("author", "AV", "venue"), ("venue", "VP", "paper"), ("paper", "PA", "author")]]
    added = AddMetaPaths(metapaths, weighted=True)(graph.clone())["author", "metapath_0", "author"]
    source, target = added.edge_index
    dense = torch.zeros(5, 5).index_put((target, source), added.edge_weight.float(), accumulate=True)
    expected = composed(stack, PATH)
    assert expected.any()
    assert not torch.equal(expected, expected.T)
    assert torch.equal(dense, expected)


def test_pyg_text_runs():
    scope = {"graph": lopsided_graph()}
    exec(pyg_text([PATH, MetaPath.of(PATH.relations[:1])]), scope)
    assert ("author", "metapath_0", "author") in scope["graph"].edge_types
    assert ("author", "metapath_1", "author") not in scope["graph"].edge_types


def test_pyg_text_adds_reverses_first():
    reverse = MetaPath.of([("paper", "PA", "author"), ("author", "rev_PA", "paper")])
    scope = {"graph": lopsided_graph()}
    exec(pyg_text([reverse]), scope)
    assert ("author", "metapath_0", "author") in scope["graph"].edge_types


@pytest.mark.parametrize("reverse", [False, True])
def test_sql_counts_the_same_instances(reverse):
    graph = lopsided_graph()
    stack = RelationStack.from_hetero(graph, reverse=True)
    path = MetaPath.of([("paper", "PA", "author"), ("author", "rev_PA", "paper")]) if reverse else PATH
    base = duckdb.connect()
    for _, name, _ in graph.edge_types:
        base.execute(f'CREATE TABLE "{name}" (source INT, target INT)')
    for edge_type in graph.edge_types:
        for source, target in graph[edge_type].edge_index.T.tolist():
            base.execute(f'INSERT INTO "{edge_type[1]}" VALUES (?, ?)', [source, target])
    dense = torch.zeros(5, 5)
    for row, col, count in base.execute(sql(path, stack.relations)).fetchall():
        dense[row, col] = count
    assert torch.equal(dense, composed(stack, path))


def test_sql_tables_are_told_apart_and_quoted():
    path = MetaPath.of([("b", 'to"', "a"), ("a", 'to"', "b")])
    assert sql(path).splitlines() == [
        "SELECT e1.target AS n0, e2.source AS n2, count(*) AS paths",
        'FROM "b_to""_a" AS e1',
        'JOIN "a_to""_b" AS e2 ON e2.target = e1.source',
        "GROUP BY e1.target, e2.source;",
    ]
    with pytest.raises(ValueError, match="has no tables"):
        sql(MetaPath.of([], start="a"))


def test_cypher_points_the_arrows():
    assert cypher(PATH) == (
        "MATCH (n0:author)<-[:PA]-(n1:paper)<-[:VP]-(n2:venue)<-[:AV]-(n3:author)\nRETURN n0, n3, count(*) AS paths;\n"
    )
    stored, added = Relation("paper", "PA", "author"), Relation("author", "rev_PA", "paper")
    assert "(n0:paper)-[:PA]->(n1:author)" in cypher(MetaPath.of([added]), [stored, added])
    assert "<-[:rev_PA]-" in cypher(MetaPath.of([added]), [added])
    assert "(n0:`my ``type`)<-[:`a b`]-" in cypher(MetaPath.of([("x", "a b", "my `type")]))


def test_non_local_steps_stay_here():
    path = MetaPath((NON_LOCAL, *PATH.relations), ("paper", *PATH.types))
    assert not is_exportable(path)
    assert is_exportable(PATH)
    assert pyg_metapaths([path]) == []
