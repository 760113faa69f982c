"""What must answer at once does not import torch or any other large package. No clock: modules are counted."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fastgtn.data
from fastgtn.cli import app, complete
from fastgtn.config.config import Config
from fastgtn.config.models import options_by_name
from fastgtn.config.source_index import check_keys, config_keys, model_modules
from fastgtn.config.toml import flat
from fastgtn.config.tuned_configs import model_values, models
from fastgtn.errors import InputError
from fastgtn.nn import baselines

LARGE = (
    "torch",
    "torch_geometric",
    "numba",
    "scipy",
    "numpy",
    "matplotlib",
    "optuna",
    "pyarrow",
    "duckdb",
    "starlette",
    "uvicorn",
    "markdown_it",  # of rich, for help in Markdown
    "pygments",  # of rich, for coloured tracebacks
)

# Runs many command lines in one process, and stops at the first that imports a large package.
RUN = """
import sys
from fastgtn.cli import app, start_fast
from fastgtn.errors import InputError
import typer.main

start_fast()

def paths(command, path):
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from paths(inner, [*path, name])

helps = [[*path, "--help"] for path in paths(typer.main.get_command(app), [])]
lines = [line.split() for line in sys.stdin.read().splitlines()]
for line in [*helps, *lines]:
    try:
        app(line, standalone_mode=False)
    except (InputError, SystemExit):
        pass
    except Exception as error:
        assert type(error).__module__.endswith("click.exceptions"), repr(error)
    found = [name for name in LARGE if name in sys.modules]
    assert not found, f"fastgtn {' '.join(line)} imports {', '.join(found)}"
print(len(helps))
"""

LIGHT = """
--version
--vresion
ls
ls --json
trian
train --nonsense
train --model gcnn
train --dataset imdbb
train --graph nowhere.npz
train nowhere.toml
train --set fit.epoks=3
train --set epochs
train --dataset imdb --graph mine.npz
tune
tune --dataset planted --model gtnn
config fast_gtnn planted
config fast_gtn planted --set model.pathlength=3
tune --dataset planted --set fit.epoks=3
screen --dataset imdbb
screen --dataset planted --set grph.normalize=row
evaluate nowhere
predict nowhere --out table.csv
predict nowhere --out table.doc
predict nowhere
predict nowhere --nodes none.csv --out table.csv
serve nowhere
explain nowhere
explain nowhere --node 1 --stability
report nowhere
data check nowhere.npz
data info imdbb
data import gtn nowhere --out no/folder/x.npz
bench nodes --models gcnn
bench nodes --datasets imdbb
config fast_gtn planted --set fit.epochs=-3
config gcn planted
"""


def in_new_process(code: str, *, text: str = "", **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_help_lists_and_mistakes_import_nothing_large() -> None:
    out = in_new_process(f"LARGE = {LARGE!r}\n{RUN}", text=LIGHT)
    assert int(out.splitlines()[-1]) > 20  # every command has been asked for help


def test_configs_are_printed_without_torch_as_they_are_with_it() -> None:
    words = [[model, *rest] for model in models() for rest in (["imdb"], ["planted", "--set", "fit.epochs=3"])]
    code = (
        "import sys\nfrom fastgtn.cli import app, start_fast\nstart_fast()\n"
        f"for line in {words!r}:\n    app(['config', *line, '--json'], standalone_mode=False)\n"
        f"assert not set({LARGE!r}) & set(sys.modules)\n"
        "import torch\nassert torch.ones(2).sum() == 2\n"
    )
    printed = in_new_process(code)
    for line in words:
        known = CliRunner().invoke(app, ["config", *line, "--json"]).output
        assert printed.startswith(known)
        printed = printed[len(known) :]
    assert not printed


def test_the_version_needs_neither_tables_nor_checks_of_configs() -> None:
    code = (
        "import sys\nfrom fastgtn.cli import main\nsys.argv = ['fastgtn', '--version']\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "found = [name for name in ('rich', 'pydantic', 'fastgtn.cli.train') if name in sys.modules]\n"
        "assert not found, found\n"
    )
    assert in_new_process(code).strip() == version("fastgtn")


def test_a_line_imports_only_the_command_that_it_names() -> None:
    code = (
        "import sys\nfrom fastgtn.cli import app\n"
        "app(['ls', '--json'], standalone_mode=False)\n"
        "found = [name for name in sys.modules if name.startswith(('fastgtn.cli.bench', 'fastgtn.cli.data'))]\n"
        "assert not found, found\n"
    )
    assert "models" in json.loads(in_new_process(code))


def test_a_config_is_printed_without_rich_and_without_the_other_models() -> None:
    code = (
        "import sys\nfrom fastgtn.cli import app, start_fast\nstart_fast()\n"
        "app(['config', 'fast_gtn', 'imdb'], standalone_mode=False)\n"
        "unused = ('rich', 'fastgtn.relations.stack', 'fastgtn.nn.baselines', 'importlib.metadata')\n"
        "found = [name for name in unused if name in sys.modules]\n"
        "assert not found, found\n"
    )
    assert "[model]" in in_new_process(code)


def test_a_mistyped_key_is_refused_in_the_words_of_the_config() -> None:
    for values in (
        {"fit": {"epoks": 3}},
        {"grph": {"normalize": "row"}},
        {"model": {"non_local": {"nearest": 3}}},
        {"epochs": 3},
    ):
        with pytest.raises(InputError) as of_the_source:
            check_keys(values)
        with pytest.raises(InputError) as of_the_config:
            Config.of(values)
        assert str(of_the_source.value) == str(of_the_config.value)
    check_keys({"features": {"normalize": {"paper": "row"}}, "model": {"non_local": {"enabled": True}}})
    check_keys({"fit": 3})  # a wrong value, which only the config itself can explain


def test_public_names_are_imported_when_they_are_used() -> None:
    in_new_process(
        f"import sys, fastgtn\nassert not set({LARGE!r}) & set(sys.modules)\n"
        "assert set(fastgtn.__all__) <= set(dir(fastgtn))\n"
        "from fastgtn import RelationStack\n"
        "assert 'torch' in sys.modules\n"
        "assert fastgtn.RelationStack is RelationStack"
    )


UNUSED_BY_TRAINING = (
    "fastgtn.nn.baselines.gcn",
    "torch._dynamo.utils",
    "torch_geometric.nn.conv",
    "torch_geometric.datasets.planetoid",
    "scipy.stats",
    "sympy",
    "duckdb",
    "matplotlib",
    "optuna",
    "pandas",
    "pyarrow.compute",
    "pyarrow.dataset",
    "numpy.f2py.f2py2e",
    "charset_normalizer",  # of numpy.f2py
    "psutil._ntuples",
)


def test_training_imports_neither_the_compiler_nor_layers_nor_tables(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom fastgtn.cli import main\n"
        f"sys.argv = ['fastgtn', 'train', '--set', 'fit.epochs=1', '--out', {str(tmp_path / 'run')!r}]\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        f"found = [name for name in {UNUSED_BY_TRAINING!r} if name in sys.modules]\n"
        "assert not found, found\n"
    )
    assert "micro-F1" in in_new_process(code)


UNUSED_BY_GRAPHS = ("torch_geometric.nn.conv", "scipy.stats", "sympy", "matplotlib", "optuna", "pandas", "sklearn")


def test_commands_about_graphs_and_explanations_import_only_what_they_use(tmp_path: Path) -> None:
    (tmp_path / "graph.toml").write_text(
        '[nodes.n]\ntable = "n.csv"\nid = "id"\n'
        '[relations.knows]\ntable = "e.csv"\n'
        'source = { type = "n", column = "s" }\ntarget = { type = "n", column = "t" }\n'
    )
    (tmp_path / "n.csv").write_text("id\na\nb\n")
    (tmp_path / "e.csv").write_text("s,t\na,b\n")
    run = str(tmp_path / "run")
    lines = [  # what reads no tables comes first
        ["train", "--model", "fast_gtn", "--set", "fit.epochs=1", "--set", "fit.trial_seconds=0", "--out", run],
        ["data", "ls"],
        ["data", "check", "planted"],
        ["explain", run],
        ["data", "build", str(tmp_path / "graph.toml"), "--out", str(tmp_path / "mine.npz")],
    ]
    code = (
        "import sys\nfrom fastgtn.cli import app, start_fast\nstart_fast()\n"
        f"for line in {lines!r}:\n    app(line, standalone_mode=False)\n"
        f"    unused = {UNUSED_BY_GRAPHS!r} + (() if line[:2] == ['data', 'build'] else ('duckdb',))\n"
        "    found = [name for name in unused if name in sys.modules]\n"
        "    assert not found, (line, found)\n"
    )
    assert "next" in in_new_process(code, FASTGTN_DATA=str(tmp_path))


def test_the_task_of_nodes_runs_no_code_of_links(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    lines = [
        ["train", "--model", "fast_gtn", "--set", "fit.epochs=1", "--set", "fit.trial_seconds=0", "--out", run],
        ["evaluate", run],
        ["explain", run],
        ["predict", run, "--out", str(tmp_path / "table.csv")],
        ["report", run],
    ]
    code = (
        "import sys\nfrom fastgtn.cli import app, start_fast\nstart_fast()\n"
        f"for line in {lines!r}:\n    app(line, standalone_mode=False)\n"
        "    found = [name for name in sys.modules if name.startswith(('fastgtn.links', 'fastgtn.cli.links'))]\n"
        "    assert not found, (line, found)\n"
    )
    assert "report.html" in in_new_process(code)


def test_a_deferred_module_is_imported_by_the_first_name_that_needs_it(tmp_path: Path) -> None:
    package = tmp_path / "heavy"
    package.mkdir()
    (package / "__init__.py").write_text("import heavy.part\nimport heavy.other\n")
    (package / "part.py").write_text("print('loaded')\nnumber = 5\n")
    (package / "other.py").write_text("def half(x):\n    return x / 2\n")
    code = (
        "import inspect, sys, threading\nfrom fastgtn.lazy import defer\n"
        "defer({'heavy.part': {'quick': 7}, 'heavy.other': {}})\n"
        "import heavy, heavy.part\n"
        "held = heavy.part\n"
        "inspect.stack()\nassert not hasattr(held, '__file__')\n"  # looks at all modules
        "assert heavy.part.quick == 7\nprint('waiting')\n"
        "threads = [threading.Thread(target=lambda: held.number) for _ in range(8)]\n"
        "[t.start() for t in threads]\n[t.join() for t in threads]\n"
        "assert held.number == heavy.part.number == 5 and heavy.part is not held\n"
        "from heavy.other import half\nassert half(4) == 2\n"
        "try:\n    held.nothing\nexcept AttributeError as error:\n    print(error)\n"
    )
    out = in_new_process(code, PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}").splitlines()
    assert out[:2] == ["waiting", "loaded"]  # once, whoever asked
    assert "no attribute 'nothing'" in out[2]


def test_a_first_compilation_says_what_it_is_doing(tmp_path: Path) -> None:
    code = (
        "import logging\nlogging.basicConfig(level='INFO', format='%(name)s: %(message)s')\nimport numpy as np\n"
        "from fastgtn.relations.kernels.compile import kernel\nfrom fastgtn.relations.layout import segments\n"
        "for count in (3, 4):\n    segments._counting_sort(np.zeros(2, np.int64), count)\n"
        "segments._counting_sort(np.zeros(2, np.int32), 3)\n"
    )
    lines = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr
        lines.append(done.stderr.splitlines())
    assert len(lines[0]) == 1
    assert "fastgtn: compiling kernels for this processor" in lines[0][0]
    assert str(tmp_path) in lines[0][0]
    assert lines[1] == []  # the next process finds them there


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'fastgtn' has no attribute 'FastGNT'"):
        fastgtn.FastGNT  # noqa: B018


@pytest.mark.parametrize("package", [fastgtn, fastgtn.data, fastgtn.config, baselines])
def test_every_lazy_name_exists_and_hides_no_module(package) -> None:
    folder = Path(package.__file__).parent
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert not (folder / f"{name}.py").exists(), f"{name} would be the module or the object, whichever comes first"


def test_names_from_the_source_are_those_of_the_options() -> None:
    assert sorted(model_modules()) == sorted(options_by_name())
    assert sorted(models()) == sorted([*options_by_name(), "fast_gtn_non_local"])


def test_keys_from_the_source_are_those_of_the_options() -> None:
    keys = {key for model in models() for key in flat(Config.of(model_values(model)).model_dump())}
    assert keys == set(config_keys())


def test_tab_offers_models_datasets_keys_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs" / "imdb-gtn-0").mkdir(parents=True)
    (tmp_path / "runs" / "imdb-gtn-0" / "result.json").write_text("{}")
    (tmp_path / "runs" / "no-run").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FASTGTN_DATA", str(tmp_path))
    (tmp_path / "plants.npz").write_bytes(b"")
    assert complete.models("gc") == ["gcn", "gcnii"]
    assert complete.several_models("gtn,gc") == ["gtn,gcn", "gtn,gcnii"]
    assert complete.datasets("p") == ["planted", "plants"]
    assert complete.several_datasets("planted,plants") == ["planted,plants"]
    assert complete.config_settings("fit.ep") == ["fit.epochs="]
    assert list(complete.run_folders("")) == ["runs/imdb-gtn-0"]
    assert list(complete.run_folders("runs/im")) == ["runs/imdb-gtn-0"]
    monkeypatch.setenv("FASTGTN_DATA", str(tmp_path / "nowhere"))
    assert complete.datasets("") == ["planted"]


def test_the_shell_asks_and_is_answered() -> None:
    words = {"_FASTGTN_COMPLETE": "complete_bash", "COMP_WORDS": "fastgtn train --model fast", "COMP_CWORD": "3"}
    code = (
        "import sys; sys.argv[0] = 'fastgtn'\nfrom fastgtn.cli import main\ntry:\n    main()\nfinally:\n"
        f"    assert not set({LARGE!r}) & set(sys.modules)\n"
    )
    assert in_new_process(code, **words).split() == ["fast_gtn", "fast_gtn_non_local"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"GOMP_SPINCOUNT": "5000", "OPENBLAS_THREAD_TIMEOUT": "4"}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": ""}),  # a policy that the user has chosen holds
    ],
)
def test_waiting_threads_sleep_sooner(
    given: dict[str, str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOMP_SPINCOUNT", "OPENBLAS_THREAD_TIMEOUT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    code = (
        "import os, sys\nfrom fastgtn.cli import start_fast\nstart_fast()\n"
        "assert not {'numpy', 'torch'} & set(sys.modules)\n"  # they read the variables when they are imported
        f"print([os.environ.get(name, '') for name in {list(expected)}])"
    )
    assert in_new_process(code, **given).strip() == str(list(expected.values()))


def test_every_module_can_be_imported_while_imports_are_deferred():
    # a deferred package that some command does need would fail there and nowhere else
    every = """
import importlib, importlib.util, pkgutil
from fastgtn.cli import start_fast
start_fast()
import fastgtn, scipy.stats, sklearn.linear_model
left_out = {"fastgtn.__main__"}
if importlib.util.find_spec("triton") is None:  # an extra, which only a GPU needs
    left_out.add("fastgtn.relations.kernels.gpu")
for module in pkgutil.walk_packages(fastgtn.__path__, "fastgtn."):
    if module.name not in left_out:
        importlib.import_module(module.name)
"""
    run = subprocess.run([sys.executable, "-c", every], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
