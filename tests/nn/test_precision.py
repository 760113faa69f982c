"""Half precision, torch.compile and torch.export: results are close, in the precision that was asked for."""

import copy
import subprocess
import sys

import pytest
import torch
from torch_geometric.data import HeteroData

from fastgtn import GTN, Config, FastGTN, RelationStack
from fastgtn.data import make_planted
from fastgtn.nn import HeteroFastGTN
from fastgtn.training.build import Inputs

MODELS = ["mlp", "gcn", "gat", "jk_net", "mixhop", "gcnii", "rgcn", "han", "hgt", "fast_gtn", "gtn"]


@pytest.fixture(scope="module")
def graph() -> HeteroData:
    return make_planted(authors=60, papers=80, venues=8, terms=12)[0]


@pytest.mark.parametrize("name", MODELS)
def test_bfloat16_and_autocast_are_close_to_float32(graph, name):
    sizes = {"path_length": 2, "num_channels": 2, "encoder": "linear"} if name in ("fast_gtn", "gtn") else {}
    config = Config.of({"model": {"name": name, **sizes}})
    inputs = Inputs.of(graph, config)
    torch.manual_seed(0)
    model = config.model.build(inputs.features, inputs.stack.relations).eval()
    plan = model.plan(inputs.stack, torch.arange(60))
    features = inputs.features.select(plan.inputs)
    exact = model(features, plan)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = model(features, plan)
        mixed.float().sum().backward()
    half = copy.deepcopy(model).to(torch.bfloat16)(features, plan)
    assert half.dtype == torch.bfloat16
    assert all(p.grad.dtype == torch.float32 for p in model.parameters() if p.grad is not None)
    for low in (mixed, half):
        torch.testing.assert_close(low.float(), exact, rtol=0.1, atol=0.1 * float(exact.detach().abs().max()))


@pytest.mark.parametrize("cls", [FastGTN, GTN])
def test_a_model_on_a_stack_compiles_in_one_graph(graph, cls):
    stack = RelationStack.from_hetero(graph)
    stack = stack.row_normalized() if cls is FastGTN else stack
    x = torch.randn(stack.num_nodes, 4, generator=torch.Generator().manual_seed(0))
    model = cls(4, 8, stack.relations, path_length=3, dropout=0.0)
    expected = model(x, stack)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)(x, stack)
    torch.testing.assert_close(compiled, expected, rtol=1e-5, atol=1e-6)


def test_an_exported_program_runs_in_another_process(graph, tmp_path):
    """It needs the operator of a hop, and neither the model nor its graph."""
    model = HeteroFastGTN(-1, 6, 3, graph.metadata(), "author").eval()
    expected = model(graph.x_dict, graph.edge_index_dict)["author"]
    program = torch.export.export(model.on_graph(graph.x_dict, graph.edge_index_dict), (graph.x_dict,))
    torch.export.save(program, tmp_path / "model.pt2")
    torch.save(graph.x_dict, tmp_path / "x.pt")
    code = (
        "import sys, torch, fastgtn.relations.compiled\n"
        "program = torch.export.load(sys.argv[1] + '/model.pt2').module()\n"
        "torch.save(program(torch.load(sys.argv[1] + '/x.pt'))['author'], sys.argv[1] + '/out.pt')\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    torch.testing.assert_close(torch.load(tmp_path / "out.pt"), expected.detach(), rtol=1e-5, atol=1e-6)
