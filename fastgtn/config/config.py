"""What is trained and how: frozen, checked, and complete. Each key is described in docs/training.md."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from fastgtn.config import presets, toml
from fastgtn.config.batch_options import BatchOptions
from fastgtn.config.models import FastGTNOptions, ModelOptions, options_by_name, options_of
from fastgtn.config.source_index import unknown_key
from fastgtn.data.metrics import registered
from fastgtn.errors import InputError, nearest
from fastgtn.nn.inputs.columns import Scaling
from fastgtn.nn.meta_path.options import CONSISTENCIES, EPOCHS, WEIGHT_DECAYS, MetaPathOptions
from fastgtn.options import Amount, Count, Free, Rate, Section, Seed, Share, Values, merged, one_of

# a metric, "loss", "last", or "auto" for the main metric of the task
Selection = Annotated[str, one_of(lambda: ("auto", *registered(), "loss", "last"))]


# keys of models that learn meta-paths, which came later, as runs from before them were trained
EARLIER: Values = {
    "features": {"normalize": "none"},
    "model": {"start": "uniform", "own": "shared", "rescale": False},
    "fit": {"consistency": 0.0},
}


class GraphOptions(Section):
    """From the graph to the relations that the model reads; "auto" lets validation scores choose."""

    normalize: Literal["auto", "row", "symmetric", "joint", "log", "none"] = "row"
    empty_rows: Literal["auto", "self", "zero"] = "self"
    identity: bool = True
    reverse: bool = False
    binarize: bool = False


class FeatureOptions(Section):
    """What is done to the features.

    Args:
        normalize: "row" divides by the sum of a row, "count" by the mean of its non-zero entries. "standard"
            subtracts the mean of a column and divides by its deviation; "scale" divides all columns by the same number
            instead, and "log" takes logarithms before "standard". "none" changes nothing. "auto", the default of GTN
            and FastGTN, looks at the numbers of each node type: "count" for counts, "none" for zeros and ones and for
            sparse numbers, "log" where amounts have a long tail, "scale" for others, or "standard" where columns are
            in different units. A table gives one of them for each node type.
        shared: Whether all node types share one feature space; overrides the graph.
        drop_from: `model.dropout` drops entries of feature matrices with at least this many columns. A few columns
            of a table, such as an age and an amount, are read whole: half of them would be noise.
    """

    normalize: Scaling | dict[str, Scaling] = "none"
    shared: bool | None = None
    drop_from: Annotated[int, Field(ge=0)] = 64


class FitOptions(Section):
    """Optimisation and selection. The filters may have a separate learning rate and weight decay.

    Args:
        trial_seconds: Processor time for the trials that decide keys with the value "auto"; with 0 each takes its
            first value.
        consistency: Weight of a term that asks nodes without labels to get the same answer whatever dropout leaves out.
    """

    epochs: Count | Literal["auto"] = EPOCHS
    trial_seconds: Amount = 120.0
    learning_rate: Rate = 0.01
    weight_decay: Amount | Literal["auto"] = 0.001
    embedding_weight_decay: Amount = 0.0
    consistency: Amount | Literal["auto"] = 0.0
    filter_learning_rate: Rate | None = None
    filter_weight_decay: Amount = 0.0
    clip: Amount = 0.0
    patience: Annotated[int, Field(ge=0)] = 0
    select_by: Selection = "auto"
    average: Share = 0.0
    runs: Annotated[Count, Free()] = 1
    seed: Annotated[Seed, Free()] = 0
    class_weights: Literal["none", "balanced"] = "none"
    number_loss: Literal["mse", "huber"] = "mse"
    number_scale: Literal["auto", "linear", "log"] = "auto"
    label_shift: Literal["none", "em"] = "none"
    calibrate: Literal["none", "temperature"] = "none"
    aim: str = ""
    checkpoint_every: Annotated[int, Field(ge=0), Free()] = 20
    tensorboard: Annotated[bool, Free()] = False
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], Free()] = "auto"
    max_memory_gb: Annotated[Amount, Free()] = 0.0

    @property
    def most_epochs(self) -> int:
        """The epochs of a training that patience does not end; where trials have not decided, the first value."""
        return EPOCHS if self.epochs == "auto" else self.epochs

    @property
    def decay(self) -> float:
        """The weight decay; where trials have not decided it, the first value that they try."""
        return WEIGHT_DECAYS[0] if self.weight_decay == "auto" else self.weight_decay

    @property
    def agreement(self) -> float:
        """The weight of `consistency`; where trials have not decided it, the first value that they try."""
        return CONSISTENCIES[0] if self.consistency == "auto" else self.consistency


class Config(Section):
    """Everything that decides a result. Build it with :meth:`of` or :meth:`from_toml`."""

    dataset: str = "planted"
    split_seed: Seed = 0
    graph: GraphOptions = GraphOptions()
    features: FeatureOptions = FeatureOptions()
    model: ModelOptions = FastGTNOptions.model_validate({})
    batch: BatchOptions = BatchOptions()
    fit: FitOptions = FitOptions()

    @classmethod
    def of(cls, *layers: Mapping[str, Any]) -> "Config":
        """From nested values, later layers over earlier ones, all over the defaults of the model and the preset."""
        values: dict[str, Any] = {}
        for layer in layers:
            values = merged(values, dict(layer))
        try:
            return cls(**values)
        except ValidationError as error:
            raise InputError(_explained(error.errors(), values.get("model"))) from None
        except TypeError as error:
            raise InputError(f"the config has a key that is not a valid name: {error}") from None

    @classmethod
    def from_toml(cls, path: str | Path, *, settings: Iterable[str] = ()) -> "Config":
        """From a file and ``key=value`` settings over it; a path to a graph is relative to the file."""
        return cls.of(read_values(path), toml.settings(settings))

    @classmethod
    def stored(cls, values: Mapping[str, Any]) -> "Config":
        """From the complete values of a run. A key that its version did not have gets the value it behaved like."""
        entry = options_of(str(_model_name(values.get("model"))))
        return cls.of(EARLIER if entry is not None and issubclass(entry, MetaPathOptions) else {}, values)

    @model_validator(mode="after")
    def _trials_decide_numbers(self) -> Self:
        tried = self.model.trials(1)
        for key in ("epochs", "weight_decay", "consistency"):
            if getattr(self.fit, key) == "auto" and f"fit.{key}" not in tried:
                raise ValueError(f'fit.{key} = "auto" is not tried for "{self.model.name}": give a number.')
        return self

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, values: Any) -> Any:
        model = values.get("model", {}) if isinstance(values, dict) else None
        if not isinstance(model, dict):
            return values
        name, preset = _model_name(model), model.get("preset", "ours")
        values = values | {"model": {"name": name, **model}}
        if options_of(str(name)) is None or preset not in presets.PRESETS:
            return values  # the check of the field reports the error
        return merged(presets.defaults_of(name, preset), values)

    def to_toml(self) -> str:
        """The complete config as a file that gives the same config again."""
        return toml.dump(self.model_dump())

    def for_seed(self, seed: int) -> "Config":
        """The config that repeats one of several runs."""
        return self.model_copy(update={"fit": self.fit.model_copy(update={"seed": seed, "runs": 1})})


def free_keys() -> frozenset[str]:
    """The full keys that change how a run is executed, but not the weights of a seed."""
    sections = {name: field.annotation for name, field in Config.model_fields.items()}
    return frozenset(
        f"{name}.{key}"
        for name, section in sections.items()
        if isinstance(section, type) and issubclass(section, Section)
        for key, field in section.model_fields.items()
        if any(isinstance(mark, Free) for mark in field.metadata)
    )


def read_values(path: str | Path) -> dict[str, Any]:
    """The values of a config file; a path to a graph becomes absolute."""
    path = Path(path)
    values = toml.read(path)
    dataset = values.get("dataset")
    if isinstance(dataset, str) and is_path(dataset):
        values["dataset"] = str((path.parent / dataset).resolve())
    return values


def is_path(dataset: str) -> bool:
    """Whether a dataset is given as a place, not as a name."""
    return "/" in dataset or "\\" in dataset or dataset.endswith(".npz")


def _model_name(model: Any) -> Any:
    """The name that a section `[model]` gives, or that of the default model."""
    default = FastGTNOptions.model_fields["name"].default
    return model.get("name", default) if isinstance(model, dict) else default


def _explained(errors: list[ErrorDetails], model: Any) -> str:
    """One line for the first mistake, with the full key and the nearest right word."""
    error, chosen = errors[0], _model_name(model)
    names = _names(error)
    key, value = ".".join(names), error["input"]
    if error["type"] == "union_tag_invalid":
        return f"model.name cannot be {_shown(error['ctx']['tag'])}; {nearest(error['ctx']['tag'], options_by_name())}"
    if error["type"] == "extra_forbidden":
        return unknown_key(names, _fields(names[:-1], chosen))
    if error["type"] == "literal_error":
        same = [other for other in errors if _names(other) == names and other["type"] == "literal_error"]
        expected = ", ".join(str(other["ctx"]["expected"]).replace(" or ", ", ") for other in same)
        options = [word.strip("'") for word in expected.split(", ")]
        return f"{key} cannot be {_shown(value)}; {nearest(str(value), options)}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{key} = {_shown(value)}: {message[0].lower()}{message[1:]}." if error["type"] != "value_error" else message


def _names(error: ErrorDetails) -> list[str]:
    """The parts of a key. One that allows several kinds of values has one more part: which of them was tried."""
    kinds = ("constrained-", "literal[")
    return [str(part) for part in error["loc"] if not str(part).startswith(kinds)]


def _fields(section: list[str], chosen: str) -> list[str]:
    model: type[BaseModel] = Config
    for name in section:
        in_model = model is Config and name == "model"
        model = options_of(chosen) if in_model else model.model_fields[name].annotation  # type: ignore
    return list(model.model_fields)


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
