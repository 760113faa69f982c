"""`fastgtn tune`: search the config of a model, or of many models on many datasets."""

from dataclasses import dataclass
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
    config: Annotated[Path | None, typer.Argument(metavar="[CONFIG.toml]", help="A config to search around.")] = None,
    dataset: Annotated[str | None, typer.Option(help='A dataset by name, several with commas, or "all".')] = None,
    graph: Annotated[Path | None, typer.Option(help="Your own graph archive instead.")] = None,
    model: Annotated[str | None, typer.Option(help=f"One or several with commas: {', '.join(MODELS)}.")] = None,
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
    starts = _starts(config, dataset, graph, model, data_dir)
    results = []
    for start in starts:
        try:
            folder = out if out is not None and len(starts) == 1 else (out or Path("runs/tune")) / start.title
            results.append(_tune_from(start, budget, settings or [], seed, folder, data_dir))
        except InputError as error:
            if len(starts) == 1:
                raise
            results.append({"dataset": start.dataset, "model": start.model, "error": str(error)})
        if not as_json:
            _say(results[-1])
    if as_json:
        emit_json(results[0] if len(starts) == 1 else results)


@dataclass(frozen=True)
class _Start:
    """Where a search begins: a file, or the config that would be used for a model on a dataset."""

    dataset: str
    model: str
    file: Path | None = None

    @property
    def title(self) -> str:
        return f"{Path(self.dataset).stem if is_path(self.dataset) else self.dataset}-{self.model}"

    @property
    def is_configured(self) -> bool:
        return self.file is not None or (self.dataset, self.model) in recipes()


def _starts(
    file: Path | None, dataset: str | None, graph: Path | None, model: str | None, data_dir: Path | None
) -> list[_Start]:
    if file is not None:
        if model is not None:
            raise InputError(f"{file} names its model: leave --model away, or --dataset and --model without a file.")
        chosen = choose_config(file, str(graph) if graph else dataset, None, {}, [])
        return [_Start(chosen.dataset, chosen.model.label, file)]
    starts = [_Start(d, m) for d in _datasets(dataset, graph, data_dir) for m in _words(model or "fast_gtn")]
    for start in starts:
        model_values(start.model)  # a mistyped name is answered before the first hour, not after it
    return starts


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


def _tune_from(
    start: _Start, budget: Budget, settings: list[str], seed: int, folder: Path, data_dir: Path | None
) -> dict[str, Any]:
    extra: dict[str, Any] = {"fit": {"seed": seed} | ({} if start.is_configured else {"patience": PATIENCE})}
    config = choose_config(start.file, start.dataset, None if start.file else start.model, extra, settings)
    with TrialBar(start.title, budget.trials) as bar:
        return tune(config, out=folder, budget=budget, fixed=toml.settings(settings), data_dir=data_dir, listener=bar)


def _datasets(dataset: str | None, graph: Path | None, data_dir: Path | None) -> list[str]:
    if graph is not None:
        return [str(graph.resolve())]
    if dataset is None:
        raise InputError("name a dataset (--dataset imdb), a graph of yours (--graph my.npz) or a config file.")
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
