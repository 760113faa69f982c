"""Propagate over edges or with unrolled rows. Both are exact, and an estimate chooses the cheaper one."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor

from fastgtn.config import Config
from fastgtn.errors import InputError
from fastgtn.nn import MetaPathModel, NodeClassifier
from fastgtn.nn.meta_path.options import MetaPathOptions
from fastgtn.nn.path_tables.tables import Unrolling, obstacle
from fastgtn.relations.paths.trie import TooManyPathsError
from fastgtn.training.build import Inputs, Plan

TABLE_BYTES = 2e9  # larger tables are stored on disk; fixed, so that the choice does not depend on the free memory
# The unit of costs is one number gathered along an edge, about half a nanosecond. Measured relative costs:
DENSE = 0.1  # a multiply-add of a product with a weight matrix
ONE_TIME = 3.0  # a number read while tables are computed, since rows are wide and not cached
WITH_GRADIENT = 3  # cost of a pass with its gradient, in passes


@dataclass(frozen=True)
class Propagation:
    """The choice and its reason. Costs are per epoch, or None if no estimate was needed."""

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
    """Plans of unrolled rows for training and validation, or None if edges are used."""

    propagation: Propagation | None
    train: Plan | None = None
    val: Plan | None = None


def check_propagation(model: NodeClassifier, config: Config) -> None:
    """Refuse unrolling if it is not possible."""
    reason = _obstacle(model, config)
    if reason is not None and isinstance(config.model, MetaPathOptions) and config.model.propagation == "unrolled":
        raise InputError(f'model.propagation = "unrolled" is not possible; {reason}.')


def choose(inputs: Inputs, model: NodeClassifier, config: Config, train: Tensor, val: Tensor) -> Choice:
    """Choose the mode for training and validation rows, and prepare unrolled rows."""
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
    propagation = _estimate(found, backbone, config.fit.most_epochs, is_forced=is_forced)
    if propagation.chosen == "implicit":
        return Choice(propagation)
    on_disk = sum(4 * one.table_size for one in found) > TABLE_BYTES
    plans = [_plan(one, inputs, on_disk=on_disk) if len(one.rows) else None for one in found]
    return Choice(propagation, *plans)


def _obstacle(model: NodeClassifier, config: Config) -> str | None:
    if not isinstance(model.backbone, MetaPathModel):
        return None
    if config.batch.size:
        return "mini-batches read different edges in every step: set batch.size = 0"
    return obstacle(model.backbone)


def _plan(unrolling: Unrolling, inputs: Inputs, *, on_disk: bool) -> Plan:
    rows = unrolling.compute(on_disk=on_disk)
    return Plan(inputs.features.select(rows.inputs), rows, None).to(inputs.device)


def _estimate(found: list[Unrolling], backbone: MetaPathModel, epochs: int, *, is_forced: bool) -> Propagation:
    implicit = unrolled = 0.0
    for one, passes in zip(found, (WITH_GRADIENT, 1), strict=True):
        implicit += passes * _implicit_cost(one, backbone)
        unrolled += passes * _unrolled_cost(one, backbone)
        unrolled += ONE_TIME * one.one_time_cost / epochs
    megabytes = 4e-6 * sum(one.table_size for one in found)
    is_cheaper, fits = unrolled < implicit, 1e6 * megabytes <= TABLE_BYTES
    reason = "it reads fewer numbers per epoch"
    if is_cheaper and not fits:
        reason = f"tables of unrolled rows would take {megabytes:,.0f} MB, more than {TABLE_BYTES / 1e6:,.0f}"
    return Propagation(
        "unrolled" if is_forced or (is_cheaper and fits) else "implicit",
        "as configured" if is_forced else reason,
        round(implicit),
        round(unrolled),
        max(one.num_paths for one in found),
        round(megabytes, 1),
    )


def _implicit_cost(one: Unrolling, backbone: MetaPathModel) -> float:
    """Edges and features that a pass over planned hops reads."""
    return backbone.travelling_width * one.hops.cost + DENSE * backbone.input.out_features * one.entries(
        one.hops.inputs
    )


def _unrolled_cost(one: Unrolling, backbone: MetaPathModel) -> float:
    """The cost of a pass: the tables, their products with the weights, and the rows' own features."""
    products = backbone.travelling_width * one.mixed_size + backbone.input.out_features * one.entries(one.rows)
    return one.table_size + DENSE * products
