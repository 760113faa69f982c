"""What is trained and how: frozen, checked, and complete. Each key is described in docs/training.md."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from fastgtn.errors import InputError, nearest
from fastgtn.training import presets, toml
from fastgtn.training.batch_options import BatchOptions
from fastgtn.training.model_options import MetaPathOptions, ModelOptions, options_by_name
from fastgtn.training.presets import Preset
from fastgtn.training.sections import Amount, Count, Rate, Section, Seed, Share


class GraphOptions(Section):
    """From the graph to the relations that the model reads."""

    normalize: Literal["row", "symmetric", "none"] = "row"
    empty_rows: Literal["self", "zero"] = "self"
    identity: bool = True
    reverse: bool = False
    binarize: bool = False


class FeatureOptions(Section):
    """What is done to the features; `shared` overrides what the graph says of its feature space."""

    normalize: Literal["none", "row"] = "none"
    shared: bool | None = None


class FitOptions(Section):
    """Optimisation and selection; the filters may have a learning rate and a weight decay of their own."""

    epochs: Count = 100
    learning_rate: Rate = 0.01
    weight_decay: Amount = 0.001
    filter_learning_rate: Rate | None = None
    filter_weight_decay: Amount = 0.0
    clip: Amount = 0.0
    patience: Annotated[int, Field(ge=0)] = 0
    select_by: Literal["auto", "micro_f1", "macro_f1", "accuracy", "ndcg", "mrr", "loss", "last"] = "auto"
    average: Share = 0.0
    runs: Count = 1
    seed: Seed = 0
    class_weights: Literal["none", "balanced"] = "none"
    label_shift: Literal["none", "em"] = "none"
    checkpoint_every: Annotated[int, Field(ge=0)] = 20
    tensorboard: bool = False
    max_memory_gb: Amount = 0.0


class Config(Section):
    """Everything that decides a result. Build it with :meth:`of` or :meth:`from_toml`."""

    dataset: str = "planted"
    split_seed: Seed = 0
    graph: GraphOptions = GraphOptions()
    features: FeatureOptions = FeatureOptions()
    model: ModelOptions = MetaPathOptions()
    batch: BatchOptions = BatchOptions()
    fit: FitOptions = FitOptions()

    @classmethod
    def of(cls, *layers: Mapping[str, Any]) -> "Config":
        """From nested values, later layers over earlier ones, all over the defaults of the model and the preset."""
        values: dict[str, Any] = {}
        for layer in layers:
            values = presets.merged(values, dict(layer))
        try:
            return cls(**values)
        except ValidationError as error:
            raise InputError(_explained(error.errors()[0])) from None
        except TypeError as error:
            raise InputError(f"the config has a key that is no name: {error}") from None

    @classmethod
    def from_toml(cls, path: str | Path, *, settings: Iterable[str] = ()) -> "Config":
        """From a file and ``key=value`` settings over it; a path to a graph is relative to the file."""
        return cls.of(read_values(path), toml.settings(settings))

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, values: Any) -> Any:
        model = values.get("model", {}) if isinstance(values, dict) else None
        if not isinstance(model, dict):
            return values
        name, preset = model.get("name", "fast_gtn"), model.get("preset", "ours")
        values = values | {"model": {"name": name, **model}}
        if name not in options_by_name() or preset not in get_args(Preset):
            return values  # the check of the field names what is wrong
        return presets.merged(presets.defaults_of(name, preset), values)

    def to_toml(self) -> str:
        """The complete config as a file that gives the same config again."""
        return toml.dump(self.model_dump())

    def for_seed(self, seed: int) -> "Config":
        """The config that repeats one of several runs."""
        return self.model_copy(update={"fit": self.fit.model_copy(update={"seed": seed, "runs": 1})})


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


def _explained(error: ErrorDetails) -> str:
    """One line for the first mistake, with the full key and the nearest right word."""
    names = [str(part) for part in error["loc"]]
    chosen = names.pop(1) if names[0] == "model" and len(names) > 1 else None  # pydantic tells the chosen model too
    key, value = ".".join(names), error["input"]
    if error["type"] == "union_tag_invalid":
        return f"model.name cannot be {_shown(error['ctx']['tag'])}; {nearest(error['ctx']['tag'], options_by_name())}"
    if error["type"] == "extra_forbidden":
        where = f" in [{'.'.join(names[:-1])}]" if names[:-1] else ""
        return f'no config key "{key}"{where}; {nearest(names[-1], _fields(names[:-1], chosen))}'
    if error["type"] == "literal_error":
        options = [word.strip("'") for word in str(error["ctx"]["expected"]).replace(" or ", ", ").split(", ")]
        return f"{key} cannot be {_shown(value)}; {nearest(str(value), options)}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{key} = {_shown(value)}: {message[0].lower()}{message[1:]}." if error["type"] != "value_error" else message


def _fields(section: list[str], chosen: str | None) -> list[str]:
    model: type[BaseModel] = Config
    for name in section:
        in_model = model is Config and name == "model" and chosen is not None
        model = options_by_name()[chosen] if in_model else model.model_fields[name].annotation  # type: ignore
    return list(model.model_fields)


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
