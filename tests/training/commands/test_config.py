"""A config is complete, checked, and says which word was meant."""

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgtn.config import Config, toml
from fastgtn.config.tuned_configs import model_values, models
from fastgtn.errors import InputError


def test_each_model_gets_the_graph_that_its_definition_asks_for() -> None:
    gtn, fast = Config.of({"model": {"name": "gtn"}}), Config.of({"model": {"name": "fast_gtn"}})
    assert (gtn.graph.normalize, gtn.model.gamma, gtn.model.filter_init_std) == ("auto", "auto", 0.01)
    assert (fast.graph.normalize, fast.graph.empty_rows, fast.model.gamma) == ("auto", "auto", "auto")
    assert Config.of({"model": {"preset": "paper"}}).graph.empty_rows == "self"  # ε on the diagonal, as published
    # the first value that is tried is the one of the model itself
    assert (gtn.model.trials(1)["model.gamma"][0], fast.model.trials(1)["model.gamma"][0]) == (0.3, 0.2)
    assert fast.model.trials(1)["model.aggregate"][0] == gtn.model.trials(1)["model.aggregate"][0] == "mean"


def test_a_preset_is_a_set_of_defaults_and_explicit_keys_win() -> None:
    config = Config.of({"model": {"preset": "authors-2022", "gamma": 0.3}, "fit": {"epochs": 7}})
    assert config.graph.binarize
    assert (config.model.gamma, config.model.dropout) == (0.3, 0.0)
    assert (config.fit.epochs, config.fit.learning_rate, config.fit.weight_decay) == (7, 0.02, 0.001)
    assert Config.of({"model": {"preset": "authors-2022", "name": "gtn"}}).model.bias
    paper = Config.of({"model": {"preset": "paper"}}).model
    assert (paper.dropout, paper.head_dropout, paper.gamma, paper.aggregate) == (0.5, 0.0, 0.5, "concat")
    assert Config.of({"model": {"preset": "paper", "name": "gtn"}}).model.gamma == 1.0


@pytest.mark.parametrize("preset", ["ours", "paper", "authors-2022"])
@pytest.mark.parametrize("model", ["gtn", "fast_gtn"])
def test_the_written_config_is_the_same_config(tmp_path: Path, model: str, preset: str) -> None:
    values = {
        "model": {"name": model, "preset": preset},
        "fit": {"filter_learning_rate": 0.1, "filter_weight_decay": 0.5, "average": 0.9},
    }
    config = Config.of({"dataset": 'with "quotes"'}, values)
    (tmp_path / "config.toml").write_text(config.to_toml())
    assert Config.from_toml(tmp_path / "config.toml") == config


def test_settings_have_the_types_of_toml() -> None:
    words = [
        "model.path_length=3",
        "fit.learning_rate = 1e-2",
        "graph.binarize=true",
        "model.name=gtn",
        "dataset='acm'",
    ]
    assert toml.settings(words) == {
        "model": {"path_length": 3, "name": "gtn"},
        "fit": {"learning_rate": 0.01},
        "graph": {"binarize": True},
        "dataset": "acm",
    }


def test_a_graph_beside_the_config_is_found_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('dataset = "./my.npz"\n')
    assert Config.from_toml(tmp_path / "my.toml").dataset == str(tmp_path / "my.npz")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": {"path_lenght": 3}}, r'no config key "model.path_lenght" in \[model\]; did you mean "path_length"'),
        ({"model": {"non_local": {"neighbor": 3}}}, 'did you mean "neighbors"'),
        ({"modle": {}}, 'no config key "modle"; did you mean "model"'),
        ({"model": {"name": "fastgtn"}}, 'model.name cannot be "fastgtn"; did you mean "fast_gtn"'),
        ({"model": {"preset": "papers"}}, 'did you mean "paper"'),
        ({"model": {"path_length": "three"}}, 'model.path_length = "three": input should be a valid integer'),
        ({"model": {"path_length": True}}, "model.path_length = True: input should be a valid integer"),
        ({"model": {"path_length": 0}}, "model.path_length = 0: input should be greater than or equal to 1"),
        ({"model": {"dropout": 1.0}}, "model.dropout = 1.0: input should be less than 1"),
        ({"model": 3}, "model = 3: input should be a valid dictionary"),
        ({"fit": {"learning_rate": float("nan")}}, "fit.learning_rate = nan"),
        ({"fit": {"select_by": "f1"}}, "fit.select_by cannot be"),
        (
            {"model": {"encoder": "deep"}},
            r'model\.encoder cannot be "deep"; valid names are: auto, linear, relu, scores$',
        ),
        ({"model": {"name": "gtn", "non_local": {"enabled": True}}}, "non-local operations belong to FastGTN"),
    ],
)
def test_a_wrong_key_or_value_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Config.of(values)


def test_a_bad_assignment_or_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--set takes key=value"):
        toml.settings(["model.path_length"])
    with pytest.raises(InputError, match='"model" was already set to a value'):
        toml.settings(["model=3", "model.name=gtn"])
    with pytest.raises(InputError, match=r"the config file .* does not exist"):
        Config.from_toml(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[model\n")
    with pytest.raises(InputError, match=r"bad\.toml cannot be read as TOML"):
        Config.from_toml(tmp_path / "bad.toml")


HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.just({}),
    st.just({"x": {}}),
    st.lists(st.one_of(st.integers(), st.floats(), st.text(max_size=3), st.just([])), max_size=3),
    st.sampled_from([2**31, 2**63, 2**64, -1, 1e300, 1e-300, "none", "auto", "all", "relu", "mean"]),
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(models())), st.lists(st.tuples(st.integers(0, 1000), HOSTILE), min_size=1, max_size=3))
def test_any_value_of_any_key_is_refused_or_can_be_written(model: str, changes: list[tuple[int, Any]]) -> None:
    keys = sorted(toml.flat(Config.of(model_values(model)).model_dump()))
    values = [toml.nested({keys[place % len(keys)]: value}) for place, value in changes]
    with suppress(InputError):  # whose message names the key: tested above
        config = Config.of(model_values(model), *values)
        assert Config.of(tomllib.loads(config.to_toml())) == config


def test_only_models_with_trials_leave_the_weight_decay_open() -> None:
    assert Config.of({"model": {"name": "gtn"}}).fit.weight_decay == "auto"
    with pytest.raises(InputError, match=r'weight_decay = "auto" is not tried for "gcn": give a number'):
        Config.of({"model": {"name": "gcn"}, "fit": {"weight_decay": "auto"}})
