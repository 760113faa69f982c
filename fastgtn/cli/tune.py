"""`fastgtn tune`: search the config of a model, or of many models on many datasets."""

from pathlib import Path
from typing import Annotated, Any

import typer
from optuna.trial import FrozenTrial
from rich.progress import TimeElapsedColumn

from fastgtn.cli.output import emit_json, say
from fastgtn.cli.progress import StoppableBar
from fastgtn.cli.train import TITLES, AsJson, DataDir, Settings, choose_config
from fastgtn.data import available
from fastgtn.data.catalog import PAPER
from fastgtn.errors import InputError
from fastgtn.training import toml
from fastgtn.training.config import is_path
from fastgtn.training.recipes import MODELS, model_values, recipes
from fastgtn.training.tune import Budget, TuneListener, tune

PATIENCE = 40  # where no tuned config says otherwise: epochs without a better one are not worth a budget


def tune_command(
    dataset: Annotated[str | None, typer.Option(help='A dataset by name, several with commas, or "all".')] = None,
    graph: Annotated[Path | None, typer.Option(help="Your own graph archive instead.")] = None,
    model: Annotated[str, typer.Option(help=f"One or several with commas: {', '.join(MODELS)}.")] = "fast_gtn",
    trials: Annotated[int, typer.Option(help="How many trials in all, earlier ones included.")] = 50,
    minutes: Annotated[float | None, typer.Option(help="Minutes of training in all, if they end first.")] = None,
    seeds_per_trial: Annotated[int, typer.Option(help="Seeds whose mean is the score of a trial.")] = 1,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(help="The first seed, of the models and of the search.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder of the search.")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Search a good config by validation scores. The same command again continues; several may run at once.

    Example: fastgtn tune --dataset imdb --model gtn --trials 50 --minutes 10
    """
    if graph is not None and dataset is not None:
        raise InputError("--dataset names a graph of the data folder, --graph a file of yours: give one of them.")
    budget = Budget(trials, minutes, seeds_per_trial)
    cells = [(d, m) for d in _datasets(dataset, graph, data_dir) for m in _words(model)]
    for _, name in cells:
        model_values(name)  # a mistyped name is answered before the first hour, not after it
    results = []
    for place, name in cells:
        try:
            folder = out if out is not None and len(cells) == 1 else (out or Path("runs/tune")) / _cell(place, name)
            results.append(_tune_cell(place, name, budget, settings or [], seed, folder, data_dir))
        except InputError as error:
            if len(cells) == 1:
                raise
            results.append({"dataset": place, "model": name, "error": str(error)})
        if not as_json:
            _say(results[-1])
    if as_json:
        emit_json(results[0] if len(cells) == 1 else results)


class TrialBar(StoppableBar, TuneListener):
    """Trials and the best score so far; a bar on a terminal, silence elsewhere."""

    def __init__(self, title: str, trials: int) -> None:
        super().__init__(TimeElapsedColumn())
        self.task = self.bar.add_task(title, total=trials, facts="")

    def how_to_continue(self) -> str:
        return "the same command continues, and no finished trial is lost"

    def started(self, ended: int, best: FrozenTrial | None) -> None:
        self._show(ended, best)

    def trial_done(self, trial: FrozenTrial, ended: int, best: FrozenTrial | None) -> None:  # noqa: ARG002
        self._show(ended, best)

    def _show(self, ended: int, best: FrozenTrial | None) -> None:
        facts = "" if best is None else f"best val {100 * float(best.value or 0):.2f} in trial {best.number}"
        self.bar.update(self.task, completed=ended, facts=facts)


def _tune_cell(
    dataset: str, model: str, budget: Budget, settings: list[str], seed: int, folder: Path, data_dir: Path | None
) -> dict[str, Any]:
    extra: dict[str, Any] = {"fit": {"seed": seed}}
    if (dataset, model) not in recipes():
        extra["fit"]["patience"] = PATIENCE
    config = choose_config(None, dataset, model, extra, settings)
    with TrialBar(_cell(dataset, model), budget.trials) as bar:
        return tune(config, out=folder, budget=budget, fixed=toml.settings(settings), data_dir=data_dir, listener=bar)


def _cell(dataset: str, model: str) -> str:
    return f"{Path(dataset).stem if is_path(dataset) else dataset}-{model}"


def _datasets(dataset: str | None, graph: Path | None, data_dir: Path | None) -> list[str]:
    if graph is not None:
        return [str(graph.resolve())]
    if dataset is None:
        raise InputError("name a dataset (--dataset imdb) or a graph of yours (--graph my.npz).")
    here = [name for name in PAPER if name in available(data_dir)]
    return here if dataset == "all" else _words(dataset)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _say(result: dict[str, Any]) -> None:
    if "error" in result:
        say("skipped", f"{result['model']} on {result['dataset']}: {result['error']}")
        return
    best = result["best"]
    scored = f"{result['trials']} trials ({result['scored']} to their end) in {result['seconds']:.0f} s"
    say("tuned", f"{result['model']} on {result['dataset']} · {scored} · best val "
        f"{TITLES[result['metric']]} {100 * best['score']:.2f} in trial {best['trial']}")  # fmt: skip
    say("saved", f"{result['out']}    next: fastgtn train {result['config']} --runs 10")
