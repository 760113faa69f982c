"""`fastgtn tune`: search for the config of a model, or of several models on several datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastgtn.cli import complete
from fastgtn.cli.choose import check_model, check_one_graph, check_settings, choose_config, is_link_task, link_dataset
from fastgtn.cli.options import AsJson, DataDir, LinkNegatives, LinkRelation, LinkSplit, Settings, TaskKind
from fastgtn.cli.output import emit_json, say
from fastgtn.errors import InputError

if TYPE_CHECKING:
    from fastgtn.tuning.trials import Budget

PATIENCE = 40  # default of fit.patience in a search: long runs without improvement waste the budget


def tune_command(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG.toml]", help="A config file to start the search from.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help='Name of a dataset, comma-separated names, or "all".', autocompletion=complete.several_datasets
        ),
    ] = None,
    graph: Annotated[Path | None, typer.Option(help="Use your own graph archive instead of a dataset.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Name of a model (fastgtn ls), or comma-separated names.", autocompletion=complete.several_models
        ),
    ] = None,
    trials: Annotated[int, typer.Option(help="Total number of trials, including earlier ones.")] = 50,
    minutes: Annotated[
        float | None, typer.Option(help="Total training minutes; the search ends with either limit.")
    ] = None,
    seeds_per_trial: Annotated[int, typer.Option(help="Number of seeds; their mean is the score of a trial.")] = 1,
    settings: Settings = None,
    task: TaskKind = None,
    link: LinkRelation = None,
    negatives: LinkNegatives = None,
    split: LinkSplit = None,
    seed: Annotated[int, typer.Option(help="The first seed of the models, and the seed of the search.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder of the search.")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Search for a config by validation scores. Run the same command again to resume an interrupted search.

    Example: fastgtn tune --dataset imdb --model gtn --trials 50 --minutes 10
    """
    check_one_graph(dataset, graph)
    if config is not None and model is not None:
        raise InputError(
            f"{config} already contains a model: omit --model, or give --dataset and --model without a file."
        )
    run: Callable[[_Start, Budget, Path], dict[str, Any]]
    if is_link_task(task, config, link=link, negatives=negatives, split=split):
        words = {"link": link, "negatives": negatives, "split": split, "seed": seed, "settings": settings}
        starts = _link_starts(link_dataset(dataset, graph, config=config), config, model)
        run = partial(_tune_links, words=words, data_dir=data_dir)
    else:
        check_settings(settings)
        starts = _starts(config, dataset, graph, model, data_dir)
        run = partial(_tune_from, settings=settings or [], seed=seed, data_dir=data_dir)
    from fastgtn.tuning.trials import Budget

    results = []
    for result in _search_all(starts, run, Budget(trials, minutes, seeds_per_trial), out):
        results.append(result)
        if not as_json:
            _say(result)
    if as_json:
        emit_json(results[0] if len(starts) == 1 else results)


def _search_all(
    starts: Sequence[_Start],
    run: Callable[[_Start, Budget, Path], dict[str, Any]],
    budget: Budget,
    out: Path | None,
) -> Iterator[dict[str, Any]]:
    """The result of each search; one of several that cannot be run gives its error as the result."""
    for start in starts:
        folder = out if out is not None and len(starts) == 1 else (out or Path("runs/tune")) / start.title
        try:
            yield run(start, budget, folder)
        except InputError as error:
            if len(starts) == 1:
                raise
            yield {"dataset": start.dataset, "model": start.model, "error": str(error)}


@dataclass(frozen=True)
class _Start:
    """The start of a search: a config file, or the default config of a model on a dataset."""

    dataset: str
    model: str
    file: Path | None = None

    @property
    def title(self) -> str:
        from fastgtn.config import is_path

        return f"{Path(self.dataset).stem if is_path(self.dataset) else self.dataset}-{self.model}"

    @property
    def is_configured(self) -> bool:
        from fastgtn.config.tuned_configs import recipes

        return self.file is not None or (self.dataset, self.model) in recipes()


def _starts(
    file: Path | None, dataset: str | None, graph: Path | None, model: str | None, data_dir: Path | None
) -> list[_Start]:
    if file is not None:
        chosen = choose_config(file, str(graph) if graph else dataset, None, {}, [])
        return [_Start(chosen.dataset, chosen.model.label, file)]
    starts = [_Start(d, m) for d in _datasets(dataset, graph, data_dir) for m in _words(model or "fast_gtn")]
    for start in starts:
        check_model(start.model)  # report a mistyped name before the search starts
    return starts


def _link_starts(dataset: str | None, file: Path | None, model: str | None) -> list[_Start]:
    """Searches of link models; of the joined meta-paths if no model is named."""
    from fastgtn.links.learned.options import JOINED

    if file is not None:
        from fastgtn.cli.links.train import link_settings

        chosen = link_settings(dataset, config=file)
        return [_Start(chosen.dataset, f"links-{chosen.model}", file)]
    return [_Start(str(dataset), f"links-{name}") for name in _words(model or JOINED)]


def _tune_links(
    start: _Start, budget: Budget, folder: Path, *, words: dict[str, Any], data_dir: Path | None
) -> dict[str, Any]:
    from fastgtn.cli.links.train import link_settings
    from fastgtn.cli.progress.trials import TrialBar
    from fastgtn.config import toml
    from fastgtn.links.tuning import tune_links

    model = None if start.file else start.model.removeprefix("links-")
    chosen = link_settings(start.dataset, config=start.file, model=model, **words)
    fixed = toml.settings(words["settings"] or ())
    with TrialBar(start.title, budget.trials) as bar:
        return tune_links(chosen, out=folder, budget=budget, fixed=fixed, data_dir=data_dir, listener=bar)


def _tune_from(
    start: _Start, budget: Budget, folder: Path, *, settings: list[str], seed: int, data_dir: Path | None
) -> dict[str, Any]:
    from fastgtn.cli.progress.trials import TrialBar
    from fastgtn.config import toml
    from fastgtn.tuning.search import tune

    extra: dict[str, Any] = {"fit": {"seed": seed} | ({} if start.is_configured else {"patience": PATIENCE})}
    config = choose_config(start.file, start.dataset, None if start.file else start.model, extra, settings)
    with TrialBar(start.title, budget.trials) as bar:
        return tune(config, out=folder, budget=budget, fixed=toml.settings(settings), data_dir=data_dir, listener=bar)


def _datasets(dataset: str | None, graph: Path | None, data_dir: Path | None) -> list[str]:
    if graph is not None:
        return [str(graph.resolve())]
    if dataset is None:
        raise InputError("give a dataset (--dataset imdb), your own graph (--graph my.npz) or a config file.")
    from fastgtn.data.catalog import PAPER, available

    here = [name for name in PAPER if name in available(data_dir)]
    return here if dataset == "all" else _words(dataset)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _say(result: dict[str, Any]) -> None:
    if "error" in result:
        say("skipped", f"{result['model']} on {result['dataset']}: {result['error']}")
        return
    from fastgtn.data.metrics import shown, title_of

    best = result["best"]
    scored = f"{result['trials']} trials ({result['scored']} completed) in {result['seconds']:.0f} s"
    say(
        "tuned",
        f"{result['model']} on {result['dataset']} · {scored} · best val "
        f"{title_of(result['metric'])} {shown(result['metric'], best['score'])} in trial {best['trial']}",
    )
    say("saved", f"{result['out']}    next: fastgtn train {result['config']} --runs 10")
