"""Whole epochs over edges and with unrolled rows, in turn:  python -m benchmarks.unrolled [GRAPH …] [--labels 100].

One thread, no dropout; CPU seconds of the process, which other work on the machine disturbs least.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch_geometric.data import HeteroData

from fastgtn.bench.measure import markdown
from fastgtn.config import Config
from fastgtn.data import NodeTask, load
from fastgtn.data.task import Split
from fastgtn.training.build import Inputs, build_model
from fastgtn.training.loop import State, Trainer
from fastgtn.training.propagation import Propagation
from fastgtn.training.steps import plan_passes

WAYS = ("implicit", "unrolled")
DEFAULT = {"dblp": 4, "acm": 3, "imdb": 3}  # hops


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", help="Datasets or archives; by default dblp, acm and imdb.")
    parser.add_argument(
        "--labels", type=int, default=0, help="Keep this many training nodes, and half as many validation nodes."
    )
    parser.add_argument("--hops", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in options.graphs or DEFAULT:
        graph, task = load(name)
        assert task is not None
        task = _fewer(task, options.labels) if options.labels else task
        for model in ("fast_gtn", "gtn"):
            rows.append(measured(name, graph, task, model, options.hops or DEFAULT.get(name, 2), options.rounds))
            print(rows[-1], flush=True)
    header = ["graph", "model", "hops", "labels", "paths", "MB", "once", "implicit", "unrolled", "factor", "auto"]
    print(markdown(header, rows))


def measured(name: str, graph: HeteroData, task: NodeTask, model: str, hops: int, rounds: int) -> list[str]:
    """Epochs of training with validation, a few of each way at a time; the least of all rounds."""
    runs: dict[str, Callable[[], float]] = {}
    found: dict[str, Propagation | None] = {}
    seconds: dict[str, float] = {}
    for way in ("implicit", "auto", *WAYS):  # the first call compiles, and is measured again
        runs[way], found[way], seconds[way] = prepared(graph, task, model, hops, way)
    least = {way: min(times) for way, times in _in_turn(runs, rounds).items()}
    unrolled, chosen = found["unrolled"], found["auto"]
    assert unrolled is not None
    assert unrolled.megabytes is not None
    assert chosen is not None
    return [
        name.split("/")[-1],
        model,
        str(hops),
        f"{len(task.train)} + {len(task.val)}",
        str(unrolled.paths),
        f"{unrolled.megabytes:.0f}",
        f"{seconds['unrolled']:.1f} s",
        *(f"{least[way] * 1e3:.1f} ms" for way in WAYS),
        f"{least['implicit'] / least['unrolled']:.1f}×",
        chosen.chosen,
    ]


def prepared(
    graph: HeteroData, task: NodeTask, model: str, hops: int, way: str
) -> tuple[Callable[[], float], Propagation | None, float]:
    """A function that trains for three epochs more and tells the seconds of one; what was chosen; seconds before."""
    config = Config.of({"model": {"name": model, "path_length": hops, "dropout": 0.0, "propagation": way}})
    inputs = Inputs.of(graph, config)
    torch.manual_seed(0)
    built = build_model(config.model, inputs.features, inputs.raw.relations, task.num_classes)
    state = State.start(built, config.fit)
    assert inputs.stack is not None  # normalised before time is taken
    begun = time.process_time()
    passes = plan_passes(inputs, task, built, config)
    before = time.process_time() - begun

    def run(epochs: int = 3) -> float:
        fit = config.fit.model_copy(update={"epochs": state.epoch + epochs})
        begun = time.process_time()
        Trainer(state, passes, task, fit).run(lambda _: None)
        return (time.process_time() - begun) / epochs

    return run, passes.propagation, before


def _in_turn(runs: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    for way in WAYS:
        runs[way]()  # compiles, and builds what is kept
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            times[way].append(runs[way]())
    return times


def _fewer(task: NodeTask, count: int) -> NodeTask:
    def first(split: Split, size: int) -> Split:
        return Split(split.nodes[:size], split.labels[:size])

    return replace(task, train=first(task.train, count), val=first(task.val, count // 2))


if __name__ == "__main__":
    main()
