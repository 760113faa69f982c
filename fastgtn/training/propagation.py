"""Hop by hop over edges, or with unrolled rows: both are exact, and an estimate says which is cheaper."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor

from fastgtn.errors import InputError
from fastgtn.models import GTN, MetaPathModel, NodeClassifier
from fastgtn.models.features import Features
from fastgtn.models.unrolling import Unrolling, obstacle
from fastgtn.relations.unrolled import TooManyPathsError
from fastgtn.training.build import Inputs, Plan
from fastgtn.training.config import Config
from fastgtn.training.model_options import MetaPathOptions

TABLE_BYTES = 2e9  # larger tables go to disk; fixed, so that a choice does not depend on what is free just now
# Costs are counted in numbers gathered along edges, about half a nanosecond each. Measured beside them:
DENSE = 0.1  # a multiply-add of a product with a weight matrix
ONE_TIME = 3.0  # a number read while tables are computed: wide rows, and nothing is in the cache
WITH_GRADIENT = 3  # passes that a pass and its gradient are worth


@dataclass(frozen=True)
class Propagation:
    """What was chosen and why; costs are per epoch, and None where nothing had to be estimated."""

    chosen: Literal["implicit", "unrolled"]
    reason: str
    implicit_cost: int | None = None
    unrolled_cost: int | None = None
    paths: int | None = None
    megabytes: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Choice:
    """Plans of unrolled rows for training and validation; None where edges are used."""

    propagation: Propagation | None
    train: Plan | None = None
    val: Plan | None = None


def check_propagation(model: NodeClassifier, config: Config) -> None:
    """Refuse to unroll what cannot be."""
    reason = _obstacle(model, config)
    if reason is not None and isinstance(config.model, MetaPathOptions) and config.model.propagation == "unrolled":
        raise InputError(f'model.propagation = "unrolled" is not possible; {reason}.')


def choose(inputs: Inputs, model: NodeClassifier, config: Config, train: Tensor, val: Tensor) -> Choice:
    """Decide for the rows of a training and its validation, and prepare them if they are unrolled."""
    backbone, options = model.backbone, config.model
    if not isinstance(backbone, MetaPathModel) or not isinstance(options, MetaPathOptions):
        return Choice(None)
    reason = "as configured" if options.propagation == "implicit" else _obstacle(model, config)
    if reason is not None:
        return Choice(Propagation("implicit", reason))
    is_forced = options.propagation == "unrolled"
    limit = {} if is_forced else {"most_bytes": TABLE_BYTES}
    try:
        found = [Unrolling.of(backbone, inputs.stack, rows, inputs.features, **limit) for rows in (train, val)]
    except TooManyPathsError as error:
        if is_forced:
            raise
        return Choice(Propagation("implicit", str(error)))
    propagation = _estimate(found, backbone, config.fit.epochs, is_forced=is_forced)
    if propagation.chosen == "implicit":
        return Choice(propagation)
    on_disk = sum(4 * one.table_size for one in found) > TABLE_BYTES
    plans = [_plan(one, inputs.features, on_disk=on_disk) if len(one.rows) else None for one in found]
    return Choice(propagation, *plans)


def _obstacle(model: NodeClassifier, config: Config) -> str | None:
    if not isinstance(model.backbone, MetaPathModel):
        return None
    if config.batch.size:
        return "mini-batches read other edges in every step: set batch.size = 0"
    return obstacle(model.backbone)


def _plan(unrolling: Unrolling, features: Features, *, on_disk: bool) -> Plan:
    rows = unrolling.compute(on_disk=on_disk)
    return Plan(features.select(rows.inputs), rows, None)


def _estimate(found: list[Unrolling], backbone: MetaPathModel, epochs: int, *, is_forced: bool) -> Propagation:
    implicit = unrolled = 0.0
    for one, passes in zip(found, (WITH_GRADIENT, 1), strict=True):
        implicit += passes * _implicit_cost(one, backbone)
        unrolled += passes * _unrolled_cost(one, backbone)
        unrolled += ONE_TIME * one.one_time_cost / epochs
    megabytes = 4e-6 * sum(one.table_size for one in found)
    is_cheaper, fits = unrolled < implicit, 1e6 * megabytes <= TABLE_BYTES
    reason = "fewer numbers to read in an epoch"
    if is_cheaper and not fits:
        reason = f"tables of unrolled rows would take {megabytes:,.0f} MB, more than {TABLE_BYTES / 1e6:,.0f}"
    return Propagation(
        "unrolled" if is_forced or (is_cheaper and fits) else "implicit", "as configured" if is_forced else reason,
        round(implicit), round(unrolled), max(one.num_paths for one in found), round(megabytes, 1),
    )  # fmt: skip


def _implicit_cost(one: Unrolling, backbone: MetaPathModel) -> float:
    """Edges and features that a pass over planned hops reads."""
    return _hidden(backbone) * one.hops.cost + DENSE * backbone.input.out_features * one.entries(one.hops.inputs)


def _unrolled_cost(one: Unrolling, backbone: MetaPathModel) -> float:
    """Tables that a pass reads, what is left of them times the weights, and the own features of the rows."""
    products = _hidden(backbone) * one.mixed_size + backbone.input.out_features * one.entries(one.rows)
    return one.table_size + DENSE * products


def _hidden(backbone: MetaPathModel) -> int:
    """Numbers per node that travel along edges; GTN has one product XW for all channels."""
    return backbone.input.out_features * (backbone.num_channels if isinstance(backbone, GTN) else 1)
