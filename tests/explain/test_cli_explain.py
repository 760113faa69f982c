"""`fastgtn explain`: what people and programs see."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from quick_config import TWO_HOPS
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from fastgtn.cli import app
from fastgtn.cli.explain.node import show
from fastgtn.config import Config
from fastgtn.data import archive, make_planted
from fastgtn.errors import InputError
from fastgtn.runs import load_run, train
from fastgtn.runs.on_graph import find_node


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """Two seeds of a small GTN on a graph with relations between the same types."""
    folder = tmp_path_factory.mktemp("explain")
    graph, task = make_planted("APA", authors=90, papers=120, venues=6, terms=12, misleading=2, seed=1)
    archive.write(folder / "academic.npz", graph, task)
    config = Config.of(
        {
            "dataset": str(folder / "academic.npz"),
            "model": {"name": "gtn", "hidden": 8, "dropout": 0.0, **TWO_HOPS},
            "fit": {"epochs": 10, "runs": 2},
        }
    )
    train(config, out=folder / "run")
    return folder / "run"


def explain(*arguments, code=0):
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def test_json_has_the_exact_ranking(run_folder):
    judged = json.loads(explain(run_folder, "--json").stdout)
    contributions = [path["contribution"] for path in judged["metapaths"]]
    assert contributions == sorted(contributions, reverse=True)
    assert set(judged["metapaths"][0]) >= {"share", "uniform_share", "lift", "contribution", "without", "p_value"}
    assert 0 <= judged["learned"]["entropy"] <= 1 + 1e-6
    assert judged["learned"]["control"] is None
    result = json.loads(explain(run_folder, "--json", "--by-share", "--top", 10_000).stdout)
    assert result["target"] == "author"
    weights = [path["share"] for path in result["metapaths"]]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) + result["empty_path"]["weight"] == pytest.approx(1)
    first = result["metapaths"][0]
    assert len(first["types"]) == len(first["relations"]) + 1
    assert 0 <= first["plain_weight"] <= 1
    back = json.loads(explain(run_folder, "--json", "--between-targets").stdout)["metapaths"]
    assert {path["types"][-1] for path in back} == {"author"}


def test_the_table_names_paths_as_people_do(run_folder):
    text = explain(run_folder, "--top", 100).stdout
    assert "APA" in text
    assert "AP[cites]P" in text
    assert "author ← paper ← author" in text
    assert "over 90 nodes of type author" in text
    assert text.splitlines()[-1].startswith(f"next    fastgtn explain {run_folder} --control")


def test_splits_classes_channels_and_seeds_are_chosen(run_folder):
    whole = json.loads(explain(run_folder, "--json").stdout)
    trained = load_run(run_folder)
    graph, task = trained.graph, trained.task
    val = json.loads(explain(run_folder, "--json", "--split", "val").stdout)
    assert val["nodes"] + val["nodes_without_paths"] == len(task.val)
    of_class = json.loads(explain(run_folder, "--json", "--split", "train", "--class", "topic 1").stdout)
    assert of_class["nodes"] + of_class["nodes_without_paths"] == int((task.train.labels == 1).sum())
    one = json.loads(explain(run_folder, "--json", "--channel", 1).stdout)
    assert len(one["metapaths"][0]["channels"]) == 1
    assert len(whole["metapaths"][0]["channels"]) == 2
    assert json.loads(explain(run_folder, "--json", "--seed", 1).stdout)["run"].endswith("seed-1")
    assert graph.num_nodes


def test_stability_and_faithfulness_are_beside_the_ranking(run_folder):
    options = (run_folder, "--stability", "--faithfulness", "--top", 3)
    result = json.loads(explain(*options, "--json").stdout)
    assert result["stability"]["runs"] == 2
    assert [path["path"] for path in result["faithfulness"]["paths"]] == [p["path"] for p in result["metapaths"]]
    assert result["faithfulness"]["metric"] == "micro_f1"
    val = load_run(run_folder).val["micro_f1"]
    assert result["faithfulness"]["whole"] == pytest.approx(val)
    text = explain(*options).stdout
    assert "Kendall's τ" in text
    assert re.search(r"without +only", text)


@pytest.mark.parametrize(("form", "words"), [("sql", "SELECT e1.target"), ("cypher", "MATCH (n0:author)<-[:PA]-")])
def test_queries_are_exported(run_folder, form, words):
    assert words in explain(run_folder, "--export", form, "--top", 20).stdout


def test_exported_python_names_what_it_leaves_out(run_folder):
    result = explain(run_folder, "--export", "pyg", "--top", 100)
    compile(result.stdout, "exported", "exec")
    assert "note: these paths are omitted" in result.stderr
    assert json.loads(explain(run_folder, "--export", "pyg", "--json").stdout)["export"].startswith("from torch")


def test_reasons_for_one_node_add_up(run_folder):
    result = json.loads(explain(run_folder, "--node", "author 7", "--json").stdout)
    parts = [path["contribution"] for path in result["metapaths"]]
    parts += [result[key] for key in ("other_paths", "empty_path", "own_features", "bias")]
    assert sum(parts) == pytest.approx(result["logit"], abs=1e-5)
    assert sum(result["probabilities"].values()) == pytest.approx(1)
    assert result["prediction"] == result["class"] == max(result["probabilities"], key=result["probabilities"].get)
    assert all(path["instances"][0]["nodes"][0] == "author 7" for path in result["metapaths"])
    other = json.loads(explain(run_folder, "--node", 7, "--class", "topic 2", "--json").stdout)
    assert (other["name"], other["class"]) == ("author 7", "topic 2")
    text = explain(run_folder, "--node", 7).stdout
    assert "together" in text
    assert "author 7 ← paper" in text


def test_a_part_that_is_nearly_zero_has_no_sign_of_its_own(run_folder, capsys):
    result = json.loads(explain(run_folder, "--node", "author 7", "--json").stdout)
    show({**result, "bias": -1e-9})
    out = capsys.readouterr().out
    assert re.search(r"^bias +\+0\.000", out, re.MULTILINE)
    assert "-0.000" not in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--split", "vall"], 'no split "vall"; did you mean "val"'),
        (["--class", "topic 9"], 'no class "topic 9"; did you mean'),
        (["--class", "topic 1", "--split", "test"], "test labels are hidden"),
        (["--channel", "9"], "channel must lie in 0 … 1"),
        (["--node", "author 999"], 'no author node "author 999"'),
        (["--node", "1", "--stability"], "--stability applies to all nodes and --node to one"),
        (["--entries", "3"], "give --graph-out, too"),
        (["--node", "1", "--class", "topic 9"], 'no class "topic 9"'),
    ],
)
def test_mistakes_are_named(run_folder, options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        explain(run_folder, *options)


def test_nodes_are_found_by_id_before_name():
    graph = HeteroData()
    graph["shop"].num_nodes = 3
    graph["shop"].node_id, graph["shop"].node_name = np.array(["a", "b", "c"]), np.array(["b", "twin", "twin"])
    assert find_node(graph, "shop", "b") == 1
    with pytest.raises(InputError, match='2 shop nodes have the name "twin": give the id'):
        find_node(graph, "shop", "twin")
    with pytest.raises(InputError, match='no shop node "twim"; did you mean "twin"'):
        find_node(graph, "shop", "twim")


def test_one_seed_has_no_stability(run_folder):
    with pytest.raises(InputError, match="is the folder of one seed: give the folder of the run"):
        explain(run_folder / "seed-0", "--stability")


def test_a_mistake_is_one_line_and_exit_code_two(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "fastgtn", "explain", str(tmp_path / "nothing")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: the run folder")
    assert done.stderr.count("\n") == 1


def test_learned_graphs_become_an_archive(run_folder, tmp_path):
    """Other models can be run on the learned graphs: same nodes, same task, one edge type per channel and types."""
    path = tmp_path / "learned.npz"
    explain(run_folder, "--graph-out", path, "--entries", 3)
    learned, task = archive.read(path)
    trained = load_run(run_folder)
    graph, original = trained.graph, trained.task
    assert {t: learned[t].num_nodes for t in learned.node_types} == {t: graph[t].num_nodes for t in graph.node_types}
    assert task.target == original.target
    assert {name.split()[0] for _, name, _ in learned.edge_types} == {"channel"}
    inputs, model = trained.inputs, trained.own.model
    stored = sum(learned[edge_type].edge_weight.double().sum() for edge_type in learned.edge_types)
    direct = model.backbone.learned_graphs(inputs.stack, top=3)
    expected = sum(direct[c].coordinates().values.double().sum() for c in range(len(direct)))
    assert float(stored) == pytest.approx(float(expected), rel=1e-5)
    with pytest.raises(InputError, match=r"learned\.npz"):
        explain(run_folder, "--graph-out", path)
