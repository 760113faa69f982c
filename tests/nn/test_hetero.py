"""The door for PyG users: dictionaries in, dictionaries out, and the numbers of the stack API to the bit."""

import copy
import doctest
import inspect
import pickle
import re
import runpy
from pathlib import Path

import pytest
import torch
from torch_geometric.data import HeteroData

from fastgtn import GTN, FastGTN, Features, InputError, NonLocalOptions, RelationStack
from fastgtn.data import hetero_batches, make_planted
from fastgtn.explain import rank_metapaths
from fastgtn.nn import FastGTNConv, GTNConv, HeteroFastGTN, HeteroGTN
from fastgtn.nn.hetero import layer as hetero_layer

PA = ("paper", "PA", "author")
KINDS = [(FastGTNConv, FastGTN), (GTNConv, GTN)]


@pytest.fixture
def data() -> HeteroData:
    data, _ = make_planted(authors=60, papers=80, venues=8, terms=12)
    data["author"].y = torch.arange(60) % 3
    data["venue"].x = torch.randn(8, 7, generator=torch.Generator().manual_seed(0))
    return data


def prepared(data: HeteroData, conv: type) -> RelationStack:
    stack = RelationStack.from_hetero(data)
    return stack.row_normalized() if conv is FastGTNConv else stack


@pytest.mark.parametrize(("conv", "model"), KINDS)
@pytest.mark.parametrize("target", [None, "author"])
def test_a_plain_loop_has_the_bits_of_the_stack_api(data, conv, model, target):
    """Three steps of Adam with dropout: outputs, losses and parameters are the same numbers."""
    stack, features = prepared(data, conv), Features.from_hetero(data, shared=False)
    rows = None if target is None else torch.tensor(stack.nodes_of(target))
    options = {"path_length": 3, "dropout": 0.3}
    torch.manual_seed(1)
    mine = conv(-1, 5, data.metadata(), target=target, **options)
    with torch.no_grad():
        mine.eval()(data.x_dict, data.edge_index_dict)
    theirs = model(features, 5, stack.relations, **options)
    theirs.load_state_dict(mine.backbone.state_dict())
    hops = theirs.plan(stack, rows)
    runs = []
    for module, run in (
        (mine, lambda: torch.cat(list(mine(data.x_dict, data.edge_index_dict).values()))),
        (theirs, lambda: theirs(features.select(hops.inputs), hops)),
    ):
        module.train()
        optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
        torch.manual_seed(2)
        for _ in range(3):
            optimizer.zero_grad()
            out = run()
            (out**2).sum().backward()
            optimizer.step()
        runs.append((out, dict((mine.backbone if module is mine else theirs).named_parameters())))
    assert torch.equal(runs[0][0], runs[1][0])
    for name, parameter in runs[1][1].items():
        assert torch.equal(runs[0][1][name], parameter), name


@pytest.mark.parametrize("conv", [FastGTNConv, GTNConv])
def test_outputs_are_by_node_type_and_a_target_computes_its_own_rows_alone(data, conv):
    torch.manual_seed(0)
    every = conv(-1, 5, data.metadata(), dropout=0.0)
    out = every(data.x_dict, data.edge_index_dict)
    assert {t: tuple(z.shape) for t, z in out.items()} == {t: (data[t].num_nodes, 5) for t in data.node_types}
    one = conv({t: data[t].num_features for t in data.node_types}, 5, data.metadata(), target="author", dropout=0.0)
    one.load_state_dict(every.state_dict())
    only = one(data.x_dict, data.edge_index_dict)
    assert list(only) == ["author"]
    torch.testing.assert_close(only["author"], out["author"], rtol=1e-5, atol=1e-6)


def test_the_graph_is_built_once_and_again_when_a_tensor_changes(data, monkeypatch):
    built = []
    build = hetero_layer.build_stack
    monkeypatch.setattr(hetero_layer, "build_stack", lambda *a, **k: built.append(1) or build(*a, **k))
    conv = FastGTNConv(-1, 5, data.metadata(), target="author", dropout=0.0)
    first = conv(data.x_dict, data.edge_index_dict)["author"]
    assert torch.equal(conv(data.x_dict, data.edge_index_dict)["author"], first)
    assert len(built) == 1
    edge_index = data["paper", "PA", "author"].edge_index
    edge_index[1] = edge_index[1].flip(0)  # in place: the same tensor, another version
    changed = conv(data.x_dict, data.edge_index_dict)["author"]
    assert len(built) == 2
    assert not torch.equal(changed, first)
    fresh = FastGTNConv(-1, 5, data.metadata(), target="author", dropout=0.0)
    fresh(data.x_dict, data.edge_index_dict)
    fresh.load_state_dict(conv.state_dict())
    assert torch.equal(fresh(data.x_dict, data.edge_index_dict)["author"], changed)


def test_features_that_change_in_place_are_read_again(data):
    conv = FastGTNConv(-1, 5, data.metadata(), target="author", dropout=0.0)
    first = conv(data.x_dict, data.edge_index_dict)["author"]
    data["author"].x += 1
    assert not torch.equal(conv(data.x_dict, data.edge_index_dict)["author"], first)


def test_the_graph_goes_with_its_tensors_and_inference_tensors_are_not_kept(data):
    conv = FastGTNConv(-1, 5, data.metadata(), dropout=0.0)
    edges = {t: index.clone() for t, index in data.edge_index_dict.items()}
    conv(data.x_dict, edges)
    assert conv._last_graph._value is not None
    edges.clear()
    assert conv._last_graph._value is None
    with torch.inference_mode():
        conv(data.x_dict, {t: index.clone() for t, index in data.edge_index_dict.items()})
    assert conv._last_graph._value is None


def test_batches_of_a_loader_go_straight_into_the_model(data):
    """With all neighbours a batch gives its targets what the whole graph gives them."""
    model = HeteroFastGTN(-1, 6, 3, data.metadata(), "author", dropout=0.0)
    whole = model(data.x_dict, data.edge_index_dict)["author"]
    assert whole.shape == (60, 3)
    seen = 0
    for batch in hetero_batches(data, "author", fanouts=[None, None], batch_size=25):
        size = batch["author"].batch_size
        out = model(batch.x_dict, batch.edge_index_dict)["author"][:size]
        torch.testing.assert_close(out, whole[batch["author"].n_id[:size]], rtol=1e-5, atol=1e-6)
        seen += size
    assert seen == 60


def test_edge_weights_sparse_features_and_double_precision(data):
    generator = torch.Generator().manual_seed(0)
    weights = {t: torch.rand(i.size(1), generator=generator) + 0.1 for t, i in data.edge_index_dict.items()}
    x = {**data.x_dict, "paper": data["paper"].x.to_sparse_csr()}
    conv = FastGTNConv(-1, 5, data.metadata(), target="author", dropout=0.0).double()
    out = conv(x, data.edge_index_dict, weights)["author"]
    assert out.dtype == torch.float64
    for edge_type, weight in weights.items():
        data[edge_type].edge_weight = weight
    stack = RelationStack.from_hetero(data, dtype=torch.float64).row_normalized()
    expected = conv.backbone(Features.from_hetero(data, shared=False), stack)[stack.nodes_of("author")]
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)
    assert not torch.equal(conv(x, data.edge_index_dict)["author"], out)


@pytest.mark.parametrize("options", [{}, {"bias": True, "num_layers": 2}, {"non_local": NonLocalOptions()}])
def test_reset_draws_what_the_constructor_draws(data, options):
    widths = {t: data[t].num_features for t in data.node_types}
    torch.manual_seed(3)
    conv = FastGTNConv(widths, 5, data.metadata(), **options)
    drawn = copy.deepcopy(conv.state_dict())
    for parameter in conv.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    torch.manual_seed(3)
    conv.reset_parameters()
    for name, value in conv.state_dict().items():
        assert torch.equal(value, drawn[name]), name


@pytest.mark.parametrize("cls", [HeteroFastGTN, HeteroGTN])
def test_copies_and_pickles_compute_the_same(data, cls):
    model = cls(-1, 6, 3, data.metadata(), "author", bias=True).eval()
    out = model(data.x_dict, data.edge_index_dict)["author"]
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other._last_graph._value is None
        assert torch.equal(other(data.x_dict, data.edge_index_dict)["author"], out)
    torch.manual_seed(0)
    model.reset_parameters()
    assert not torch.equal(model(data.x_dict, data.edge_index_dict)["author"], out)


@pytest.mark.parametrize("cls", [HeteroFastGTN, HeteroGTN])
def test_an_exported_program_equals_the_model(data, cls):
    """One graph, fixed; features are the input. The program has the operator of a hop, and nothing of Python."""
    model = cls(-1, 6, 3, data.metadata(), "author", path_length=3).eval()
    expected = model(data.x_dict, data.edge_index_dict)["author"]
    bound = model.on_graph(data.x_dict, data.edge_index_dict)
    program = torch.export.export(bound, (data.x_dict,))
    assert any("fastgtn.hop" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(data.x_dict)["author"], expected, rtol=1e-5, atol=1e-6)
    other = {t: x + 1 for t, x in data.x_dict.items()}
    expected = model(other, data.edge_index_dict)["author"]
    torch.testing.assert_close(program.module()(other)["author"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cls", [HeteroFastGTN, HeteroGTN])
def test_a_compiled_model_trains_like_the_eager_one(data, cls):
    model = cls(-1, 6, 3, data.metadata(), "author", dropout=0.0)
    model(data.x_dict, data.edge_index_dict)
    bound = model.on_graph(data.x_dict, data.edge_index_dict)
    compiled = torch.compile(bound, backend="aot_eager", fullgraph=True)
    found = []
    for run in (bound, compiled):
        out = run(data.x_dict)["author"]
        found.append((out, torch.autograd.grad((out**2).sum(), list(model.parameters()))))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-4, atol=1e-5)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"non_local": NonLocalOptions()}])
def test_autocast_and_half_precision_keep_their_type(data, options):
    conv = FastGTNConv(-1, 8, data.metadata(), target="author", dropout=0.0, **options)
    exact = conv(data.x_dict, data.edge_index_dict)["author"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = conv(data.x_dict, data.edge_index_dict)["author"]
        out.float().sum().backward()
    if not options:
        torch.testing.assert_close(out.float(), exact, rtol=0.1, atol=0.05)
    half = copy.deepcopy(conv).to(torch.bfloat16)
    x = {t: value.bfloat16() for t, value in data.x_dict.items()}
    assert half(x, data.edge_index_dict)["author"].dtype == torch.bfloat16
    gtn = GTNConv(-1, 8, data.metadata(), target="author", dropout=0.0)
    exact = gtn(data.x_dict, data.edge_index_dict)["author"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = gtn(data.x_dict, data.edge_index_dict)["author"]
    torch.testing.assert_close(out.float(), exact, rtol=0.1, atol=0.05)


def test_data_parallel_training_of_one_process(data, tmp_path):
    model = HeteroFastGTN(-1, 6, 3, data.metadata(), "author", dropout=0.0)
    model(data.x_dict, data.edge_index_dict)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        out = parallel(data.x_dict, data.edge_index_dict)["author"]
        assert torch.equal(out, model(data.x_dict, data.edge_index_dict)["author"])
        out.sum().backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
    finally:
        torch.distributed.destroy_process_group()


def test_the_stack_of_a_layer_serves_ranking(data):
    conv = FastGTNConv(-1, 5, data.metadata(), target="author")
    conv(data.x_dict, data.edge_index_dict)
    ranking = rank_metapaths(conv.backbone, conv.stack(data.x_dict, data.edge_index_dict), "author")
    assert ranking.listed_weight == pytest.approx(1, abs=1e-6)


def test_representations_as_pyg_writes_them(data):
    assert repr(FastGTNConv(4, 5, data.metadata())) == "FastGTNConv(5, path_length=2, num_channels=2)"
    assert repr(HeteroGTN(-1, 6, 3, data.metadata(), "author", path_length=3)) == (
        "HeteroGTN(3, path_length=3, num_channels=2, target='author')"
    )


@pytest.mark.parametrize(("conv", "model"), KINDS)
def test_documented_arguments_and_defaults_are_those_of_the_model(conv, model):
    """The signature of the model is the only home of a default; the text beside it says the same."""
    parameters = inspect.signature(conv).parameters
    for name, parameter in inspect.signature(model).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            assert parameters[name].default == parameter.default
    documented = dict(
        re.findall(r"^        (\w+) \([^)]*\).*?(?:\(default: :obj:`([^`]*)`|$)", conv.__doc__, re.M | re.S)
    )
    assert documented.keys() <= parameters.keys()
    if conv is FastGTNConv:
        assert documented.keys() == parameters.keys()
    for name, text in re.findall(
        r"^        (\w+) \([^)]*optional\):.*?\(default: :obj:`([^`]*)`\)", conv.__doc__, re.M | re.S
    ):
        default = conv.default_normalize if name == "normalize" else parameters[name].default
        assert text == (f'"{default}"' if isinstance(default, str) else str(default)), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": {"venue": None}}, "x_dict has no features of venue"),
        ({"x": {"venue": torch.ones(8)}}, r'x_dict\["venue"\] must be a real matrix'),
        ({"edges": {("a", "b", "c"): None}}, r"edge_index_dict has the edge type \('a', 'b', 'c'\)"),
        ({"weights": {PA: torch.ones(3, requires_grad=True)}}, "edge weights that require a gradient are not learned"),
        ({"x": {"author": torch.ones(3, 4)}}, r"nodes must lie in 0 … 2, but edge_index\[\d\] spans"),
        ({"x": {"venue": torch.ones(8, 3)}}, "the model was built for features"),
    ],
)
def test_a_graph_of_other_types_is_refused(data, change, message):
    conv = FastGTNConv(-1, 5, data.metadata())
    conv(data.x_dict, data.edge_index_dict)
    x, edges = data.x_dict | change.get("x", {}), data.edge_index_dict | change.get("edges", {})
    with pytest.raises(InputError, match=message):
        conv(x, edges, change.get("weights"))


def test_wrong_constructions_are_refused(data):
    metadata = data.metadata()
    for arguments, options, message in (
        (({"author": 4}, 5, metadata), {}, "in_channels must be a width, or one for each node type"),
        ((0, 5, metadata), {}, "at least 1, or −1 to find it out; but got 0"),
        ((-1, 5, metadata), {"target": "auhtor"}, 'no node type "auhtor"; did you mean "author"'),
        ((-1, 5, (["a"], [("a", "to", "b")])), {}, r"metadata has the edge type \('a', 'to', 'b'\)"),
        ((-1, 5, metadata), {"normalize": "rows"}, 'normalize must be "row", "symmetric", "log" or "none"'),
    ):
        with pytest.raises(InputError, match=message):
            FastGTNConv(*arguments, **options)
    with pytest.raises(InputError, match="a model needs the node type that it predicts"):
        HeteroFastGTN(-1, 5, 3, metadata, None)


def test_the_example_learns_the_planted_path(capsys):
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "pyg_loop.py"))
    printed = capsys.readouterr().out
    assert "\n1  APA " in printed
    assert float(re.findall(r"accuracy ([\d.]+)", printed)[-1]) > 0.8


@pytest.mark.parametrize("cls", [FastGTNConv, GTNConv, HeteroFastGTN, HeteroGTN])
def test_the_examples_of_the_docstrings_run(data, cls):
    names = {"data": data, cls.__name__: cls}
    (example,) = doctest.DocTestFinder(recurse=False).find(cls, cls.__name__, globs=names)
    assert doctest.DocTestRunner().run(example) == (0, len(example.examples))
    assert example.examples


def test_the_page_for_pyg_users_runs_as_printed(capsys):
    page = (Path(__file__).parents[2] / "docs" / "pyg.md").read_text()
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(code, "docs/pyg.md", "exec"), names)
    assert capsys.readouterr().out.count("\n") == 3
