"""A model is one file: its entry, registered here as an import would, is trained, tuned and benchmarked."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Annotated, Literal

import pytest
import torch
from quick_config import quick
from torch import Tensor, nn
from typer.testing import CliRunner

import fastgtn
from fastgtn.bench.cells import plan, run_cells
from fastgtn.bench.nodes import nodes_report
from fastgtn.bench.paper import in_order
from fastgtn.cli import app
from fastgtn.config import Config
from fastgtn.config.models import options_by_name, title_of
from fastgtn.config.tuned_configs import models
from fastgtn.data import load
from fastgtn.errors import InputError
from fastgtn.nn import Backbone, Features, entries
from fastgtn.nn.backbone_options import BackboneOptions, describes
from fastgtn.nn.baselines.mlp import NoEdges
from fastgtn.nn.inputs.checks import Input, as_sizes
from fastgtn.nn.inputs.encoders import InputLinear
from fastgtn.options import Choice, Rate
from fastgtn.relations import RelationStack
from fastgtn.runs import load_run, train
from fastgtn.training.build import Inputs, build_model
from fastgtn.tuning.search import tune
from fastgtn.tuning.trials import Budget


class Scaled(Backbone):
    """A linear map of the features times a number."""

    def __init__(
        self,
        in_features: int | Features,
        hidden: int,
        *,
        num_layers: int = 1,
        dropout: float = 0.25,
        scale: float = 2.0,
    ) -> None:
        super().__init__()
        self.dropout, self.out_features, self.scale, self.num_layers = dropout, hidden, scale, num_layers
        self.input = InputLinear(*as_sizes(in_features), hidden, dropout=dropout)

    @property
    def num_hops(self) -> int:
        return self.num_layers

    def plan(self, stack: RelationStack, rows: Tensor | None = None) -> NoEdges:  # noqa: ARG002
        return NoEdges(rows)

    def forward(self, x: Input, graph: RelationStack | NoEdges) -> Tensor:  # noqa: ARG002
        return torch.relu(self.scale * self.input(Features.of(x)))


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> type[BackboneOptions]:
    monkeypatch.setattr(entries, "_ENTRIES", entries.registered())

    @describes(Scaled, "Toy, scaled")
    class ScaledOptions(BackboneOptions):
        name: Literal["scaled"]
        scale: Annotated[Rate, Choice((0.5, 1.0, 2.0))]

    return ScaledOptions


def test_its_config_has_the_defaults_of_its_signature_and_an_unnormalised_graph() -> None:
    config = Config.of({"model": {"name": "scaled"}})
    assert (config.model.dropout, config.model.num_layers, config.model.scale) == (0.25, 1, 2.0)
    assert (config.graph.normalize, config.graph.identity) == ("none", False)
    with pytest.raises(InputError, match=r'no config key "model.scal" in \[model\]; did you mean "scale"'):
        Config.of({"model": {"name": "scaled", "scal": 1.0}})
    with pytest.raises(InputError, match=r'model\.name cannot be "scalde"; did you mean "scaled"'):
        Config.of({"model": {"name": "scalde"}})


def test_it_is_listed_with_the_others() -> None:
    listed = json.loads(CliRunner().invoke(app, ["ls", "--json"], catch_exceptions=False).stdout)
    assert "scaled" in listed["models"]
    assert in_order(models()).index("scaled") < in_order(models()).index("gtn")
    assert title_of("scaled") == "Toy, scaled"


def test_it_trains_and_loads(graph_file: Path, tmp_path: Path) -> None:
    summary = train(quick(graph_file, model={"name": "scaled", "scale": 1.0}), out=tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert isinstance(run.model.backbone, Scaled)
    assert run.model.backbone.scale == 1.0
    assert run.evaluate() == pytest.approx(summary["runs"][0]["test"])


def test_it_trains_in_batches(graph_file: Path) -> None:
    result = fastgtn.fit(*load(graph_file), quick(model={"name": "scaled"}, batch={"size": 16}))
    assert len(result.history) == 8


def test_it_is_tuned_over_its_own_range(graph_file: Path, tmp_path: Path) -> None:
    config = quick(graph_file, model={"name": "scaled"})
    result = tune(config, out=tmp_path / "search", budget=Budget(3), fixed={"fit": {"epochs": 4}})
    assert result["best"]["settings"]["model.scale"] in (0.5, 1.0, 2.0)
    assert (tmp_path / "search" / "best.toml").read_text().startswith("# Toy, scaled on academic.")


def test_it_has_a_row_in_the_tables(graph_file: Path, tmp_path: Path) -> None:
    extra = {"fit": {"epochs": 4}}
    plans = [plan(str(graph_file), name, runs=1, seed=0, extra=extra) for name in ("scaled", "gtn")]
    cells = run_cells(plans, tmp_path)
    rows = nodes_report(cells, command="fastgtn bench nodes", seeds=[0]).tables[0].rows
    assert [row[0] for row in rows] == ["Toy, scaled", "GTN"]
    assert f"{100 * cells[0].summary['test']['micro_f1']['mean']:.2f}" in rows[0][1]


def test_a_name_is_taken_once(toy: type[BackboneOptions]) -> None:
    with pytest.raises(InputError, match='a model "scaled" already exists: choose another name'):
        describes(Scaled, "again")(toy)


@pytest.mark.parametrize("model", sorted(options_by_name()))
def test_an_entry_knows_the_hops_of_its_model(graph_file: Path, model: str) -> None:
    config = decided(model)
    inputs = Inputs.of(load(graph_file)[0], config)
    backbone = config.model.build(inputs.features, inputs.stack.relations)
    assert config.model.num_hops == backbone.num_hops


def test_hops_follow_powers_and_written_metapaths(graph_file: Path) -> None:
    graph, _ = load(graph_file)
    mixhop = {"name": "mixhop", "powers": (0, 1, 3), "num_layers": 3}
    for values in (mixhop, {"name": "han", "metapaths": ["APA", "APVPA"]}):
        config = Config.of({"model": values})
        inputs = Inputs.of(graph, config)
        assert config.model.num_hops == config.model.build(inputs.features, inputs.stack.relations).num_hops


@pytest.mark.parametrize("model", sorted(options_by_name()))
def test_a_model_in_python_is_the_model_of_the_command_line(graph_file: Path, model: str) -> None:
    """Where neither is told otherwise, both have the same modules, with the same numbers in them."""
    config = decided(model)
    inputs = Inputs.of(load(graph_file)[0], config)
    built = build_model(config.model, inputs.features, inputs.stack.relations, 3)
    kind = type(built.backbone)
    relational = isinstance(built.backbone, fastgtn.nn.MetaPathModel) or model in ("rgcn", "han", "hgt")
    places = (inputs.features, 64, inputs.stack.relations) if relational else (inputs.features, 64)
    mine = fastgtn.NodeClassifier(kind(*places), 3)
    assert str(mine) == str(built)
    assert plain_values(mine) == plain_values(built)


def decided(model: str) -> Config:
    """The defaults of a model; sizes that screening would decide are those of the signature."""
    config = Config.of({"model": {"name": model}})
    open_keys = [key for key, value in config.model if key in ("path_length", "num_channels") and value == "auto"]
    signature = inspect.signature(fastgtn.FastGTN if model == "fast_gtn" else fastgtn.GTN).parameters
    return Config.of({"model": {"name": model, **{key: signature[key].default for key in open_keys}}})


def plain_values(module: nn.Module) -> list[tuple[str, dict[str, object]]]:
    """Numbers and words of each part of a model, such as its dropout and γ."""
    plain = (int, float, str, bool, tuple, type(None))
    return [
        (name, {key: value for key, value in vars(part).items() if isinstance(value, plain) and key[0] != "_"})
        for name, part in module.named_modules()
    ]
