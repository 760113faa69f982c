"""Where the time of training goes:  python -m benchmarks.profile [dblp ./folder …] [--models gtn] [--epochs 30].

Trains with the tuned configs under torch's profiler, which also sees our kernels. Shares are of the wall-clock time of
the epochs after the first. An operation inside the validation or the optimiser counts there and nowhere else.
An epoch of a large graph can be shortened:  python -m benchmarks.profile ./oag-cs --config-of oag-nn --batches 12
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from fastgtn.bench.measure import markdown
from fastgtn.config import Config
from fastgtn.config.tuned_configs import model_values, recipe
from fastgtn.data import NodeTask, Split, load
from fastgtn.errors import InputError
from fastgtn.relations.kernels import dropout, edge_loops, hop, nearest
from fastgtn.training.build import Inputs
from fastgtn.training.fit import train_inputs
from fastgtn.training.loop import State, Trainer

KERNEL, VALIDATION, OPTIMISER = (f"fastgtn::{name}" for name in ("kernel", "validation", "optimiser"))
DENSE = ("aten::mm", "aten::addmm", "aten::bmm", "aten::matmul", "aten::linear", "aten::baddbmm", "aten::addmv")
COLUMNS = ("kernels", "dense products", "other operations", "optimiser", "validation", "Python and waiting")
OURS = [  # the functions in which the package runs compiled code
    (hop, "run_ranges"),
    (dropout, "run_ranges"),
    (nearest, "run_ranges"),
    (edge_loops, "run_ranges"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="*", default=["dblp", "acm", "flickr", "oag-nn"])
    parser.add_argument("--models", nargs="*", default=["fast_gtn", "gtn"])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--config-of", help="the dataset whose tuned configs are used, if not the graph's own")
    parser.add_argument("--batches", type=int, help="batches of an epoch, with the same share of the validation nodes")
    arguments = parser.parse_args()
    rows = []
    for dataset in arguments.datasets:
        graph, task = graph_of(dataset)
        for model in arguments.models:
            epochs = arguments.epochs if dataset in ("dblp", "acm", "flickr") else 2
            fit = {"fit": {"epochs": epochs + 1, "patience": 0, "runs": 1}}
            config = Config.of(recipe(model, arguments.config_of or dataset) or model_values(model), fit)
            inputs = Inputs.of(graph, config)
            part = shortened(task, arguments.batches * config.batch.size) if arguments.batches else task
            plain = seconds_per_epoch(inputs, part, config)
            shares = profiled(inputs, part, config)
            cells = [f"{100 * shares[name]:.0f} %" for name in COLUMNS]
            rows.append([f"{graph.name}, {model}", f"{1e3 * plain:.1f} ms", *cells])
            print(rows[-1], f"{len(part.train)} training and {len(part.val)} validation nodes", flush=True)
    print(f"{torch.get_num_threads()} threads")
    print(markdown(["training", "epoch", *COLUMNS], rows))


def graph_of(name: str) -> tuple[Any, NodeTask]:
    """A graph of the data folder, the archive in a folder, or one of the generated shapes."""
    try:
        graph, task = load(Path(name) if "/" in name else name)
    except InputError:
        from fastgtn.data.synthetic.oag import make_oag

        graph, task = make_oag(name)
    assert task is not None
    return graph, task


def shortened(task: NodeTask, count: int) -> NodeTask:
    """The task with this many training nodes, and the same share of the validation nodes."""
    if not 0 < count < len(task.train):
        return task
    kept = -(-count * len(task.val) // len(task.train))
    train = Split(task.train.nodes[:count], task.train.labels[:count])
    return replace(task, train=train, val=Split(task.val.nodes[:kept], task.val.labels[:kept]))


def seconds_per_epoch(inputs: Inputs, task: NodeTask, config: Config) -> float:
    """Without the profiler, whose own work makes small operations look slow."""
    ends: list[float] = []
    train_inputs(inputs, task, config, watch=lambda _: ends.append(time.perf_counter()))
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def profiled(inputs: Inputs, task: NodeTask, config: Config) -> dict[str, float]:
    """The share of each kind of work."""
    spent = dict.fromkeys(COLUMNS, 0.0)
    with labelled():
        recorder = profile(activities=[ProfilerActivity.CPU])
        started = ended = 0.0

        def watch(state: State) -> None:
            nonlocal started, ended
            if state.epoch == 1:
                recorder.start()
                started = time.perf_counter()
            elif state.epoch == config.fit.epochs:
                ended = time.perf_counter()
                recorder.stop()

        train_inputs(inputs, task, config, watch=watch)
    main_thread = Counter(event.thread for event in recorder.events()).most_common(1)[0][0]
    for event in recorder.events():
        if event.thread == main_thread:
            spent[kind_of(event)] += 1e-6 * event.self_cpu_time_total
    whole = ended - started
    spent["Python and waiting"] = whole - sum(spent.values())
    return {name: seconds / whole for name, seconds in spent.items()}


def kind_of(event: Any) -> str:
    """The kind of work of an operation: the outermost one that has a name."""
    kind = "other operations"
    while event is not None:
        if event.name == VALIDATION:
            return "validation"
        if event.name == OPTIMISER:
            return "optimiser"
        if event.name == KERNEL:
            kind = "kernels"
        elif event.name in DENSE and kind == "other operations":
            kind = "dense products"
        event = event.cpu_parent
    return kind


@contextmanager
def labelled() -> Iterator[None]:
    """Within it, kernels, validations and steps of the optimiser have names in the profile."""

    def named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            with record_function(name):
                return function(*arguments, **options)

        return run

    with ExitStack() as stack:
        for module, name in OURS:
            stack.enter_context(patch.object(module, name, named(KERNEL, getattr(module, name))))
        stack.enter_context(patch.object(Trainer, "_validate", named(VALIDATION, Trainer._validate)))
        for method in ("step", "zero_grad"):
            labelled_step = named(OPTIMISER, getattr(torch.optim.Adam, method))
            stack.enter_context(patch.object(torch.optim.Adam, method, labelled_step))
        yield


if __name__ == "__main__":
    main()
