"""Define the study's configuration. Defaults are the quick study; descriptions become comments and schema help.

The config forgives text for numbers, one value for a list and a key without a value: Snakemake passes everything inside
`--config 'key={...}'` as text, so each type reads its own text. Sections refuse unknown keys.
"""

import re
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from whichdevice.base.numbers import from_text, plain_from_text
from whichdevice.forecast.targets import FORECAST_DEVICES

EMPTY_TEXTS = {"", "null", "~"}


def whole_from_text(value: Any) -> Any:
    """The whole number that a text holds in its one plain form; any other text stays as it is."""
    return from_text(value) if isinstance(value, str) and re.fullmatch("0|-?[1-9][0-9]*", value) else value


def text(value: Any) -> Any:
    """Return what YAML or the command line took for a number, as text again."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def no_number(value: Any) -> Any:
    """A name as it is; one that YAML or the command line read as a number may have been written as another."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"names {value}, which was read as a number: begin the name with a letter")
    return value


def many(value: Any) -> Any:
    """One value as a list of one."""
    return value if isinstance(value, list | dict) or value is None else [value]


def without_repeats(values: list[Any]) -> list[Any]:
    """The list as it is; raises ValueError on a value that is in it twice."""
    twice = [value for position, value in enumerate(values) if value in values[:position]]
    if twice:
        raise ValueError(f"lists {twice[0]} twice; once is enough")
    return values


def tidy(values: Any, optional: set[str]) -> Any:
    """The mapping; an empty key is None if it is in `optional`, and left out otherwise. None gives an empty mapping."""
    if values is None:
        return {}
    if not isinstance(values, dict):
        return values
    plain = {str(key): None if _is_nothing(value) else value for key, value in values.items()}
    return {key: value for key, value in plain.items() if value is not None or key in optional}


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip() in EMPTY_TEXTS)


Value = TypeVar("Value")

# A Field stands before its BeforeValidator, which then leaves it in the JSON schema.
TOO_MANY = 2**53  # of anything; a table's column and a float still hold what is below it
PositiveInt = Annotated[int, Field(gt=0, lt=TOO_MANY), BeforeValidator(from_text)]
Count = Annotated[int, Field(ge=0, lt=TOO_MANY), BeforeValidator(from_text)]
PositiveFloat = Annotated[float, Field(gt=0), BeforeValidator(from_text)]
Fraction = Annotated[float, Field(ge=0.0001, le=1), BeforeValidator(from_text)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(from_text)]
Seed = Annotated[int, Field(ge=0, lt=2**31), BeforeValidator(from_text)]
Bool = Annotated[bool, BeforeValidator(from_text)]
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.]*$"
LONGEST_NAME = 64
Name = Annotated[str, Field(pattern=NAME, max_length=LONGEST_NAME), BeforeValidator(no_number)]
Values = Annotated[list[Value], Field(min_length=1), BeforeValidator(many), AfterValidator(without_repeats)]


class Section(BaseModel):
    """A part of the config: unknown keys are errors, values are checked and coerced from text alone."""

    model_config = ConfigDict(extra="forbid", validate_default=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _tidy(cls, values: Any) -> Any:
        """An empty key is None if its type allows that; otherwise it is left out."""
        return tidy(values, {key for key, field in cls.model_fields.items() if NoneType in get_args(field.annotation)})


DeviceKind = Literal["cpu", "gpu", "tpu"]
Source = Literal["tfds", "files", "standin"]
Precision = Literal["float32", "tf32", "mixed_bfloat16", "mixed_float16", "bfloat16"]
Backend = Literal["tensorflow", "jax", "torch"]
Mode = Literal["train", "predict", "generate"]
TargetName = Annotated[str, BeforeValidator(text)]  # checked against the sheet


class Device(Section):
    """One device that the study compares."""

    kind: DeviceKind = Field(description="cpu, gpu or tpu")
    replicas: PositiveInt = Field(1, description="how many chips (GPU) or cores (TPU) share a batch")
    hardware: str | None = Field(None, description="row of config/hardware.csv with sheet peaks and prices")
    usd_per_hour: PositiveFloat | None = Field(
        None, description="price of the whole device per hour; empty takes the sheet's"
    )
    resources: dict[Name, Annotated[int | str, BeforeValidator(whole_from_text)]] = Field(
        default_factory=dict, description="scheduler resources of its runs, e.g. {slurm_partition: gpu}"
    )


class Data(Section):
    """The sources of the datasets."""

    source: Literal["auto", "tfds", "files", "standin"] = Field(
        "auto",
        description="auto: files where data.dir has them, else standin (generated); tfds downloads the real data",
    )
    dir: str | None = Field(None, description="folder with original archives, <dir>/<dataset>/<archive>, for `files`")
    sources: dict[Name, Source] = Field(
        default_factory=dict, description="source of single datasets, e.g. {mnist: files}; wins over `source`"
    )

    @property
    def folder(self) -> Path | None:
        """`dir` with ~ expanded; the study keeps it as written, so that no user name enters the results."""
        return Path(self.dir).expanduser() if self.dir else None


class Measure(Section):
    """How speed is timed."""

    seconds: PositiveFloat = Field(0.8, description="steady state is timed for this long in a run")
    min_steps: PositiveInt = Field(3, description="and for at least this many steps")
    repeats: PositiveInt = Field(3, description="processes per cell; each gives one number")
    timeout: PositiveFloat = Field(900, description="seconds after which a run counts as hung")
    retry_seconds: Annotated[float, Field(ge=0), BeforeValidator(from_text)] = Field(
        30.0,
        description="for so long in all, disturbed runs are measured again; the quieter attempt counts",
    )


class Train(Section):
    """How learning is followed; speed does not depend on it."""

    epochs: Count | None = Field(2, description="epochs to learn; empty takes each recipe's; 0 learns nothing")
    seconds: PositiveFloat | None = Field(
        6.0,
        description="time budget of a run's learning, which then has a curve of points on a part of the held-out data; "
        "empty: as long as the epochs take"
    )
    repeats: Count = Field(1, description="the first so many repeats learn")


class Workload(Section):
    """One workload and the axes along which it is measured; every combination is a cell."""

    module: str | None = Field(
        None, description="workload file: a built-in name or a path to a .py file; empty takes the key's name"
    )
    mode: Mode = Field(
        "train",
        description="train: training steps, and learning; predict: forward passes, each one timed; generate: tokens "
        "after a prompt of half the sequence length, of causal models",
    )
    batch_size: Values[PositiveInt] | None = Field(
        None, description="examples per step (matmul: N; memory_stream: MiB an array); empty takes the recipe's"
    )
    backend: Values[Backend] = Field(["tensorflow"], description="Keras backends")
    precision: Values[Precision] = Field(["float32"], description="number formats")
    fraction: Values[Fraction] = Field(
        [1.0], description="shares of the training data, for training time against data-set size"
    )
    sequence_length: Values[PositiveInt] | None = Field(
        None, description="steps per sequence of recurrent workloads; empty takes the recipe's"
    )
    device: Annotated[list[Name], BeforeValidator(many), AfterValidator(without_repeats)] | None = Field(
        None, description="which of the devices run it; empty: all of them; []: none, it is only forecast"
    )
    options: dict[Name, Annotated[int | float | bool | str, BeforeValidator(plain_from_text)]] = Field(
        default_factory=dict, description="of a model file, which reads them with options.get(name, default)"
    )
    epochs: Count | None = Field(None, description="epochs to learn; empty takes train.epochs")
    steps_per_epoch: PositiveInt | None = Field(None, description="empty takes the recipe's, or the whole data")
    validation: Bool = Field(True, description="evaluate after each epoch, so that callbacks can act")
    export: Bool = Field(False, description="keep the best learned model as files: docs/how-to/serve-and-deploy.md")


class Forecasting(Section):
    """Forecasts for devices that nobody here has: of steps that are counted here."""

    devices: Annotated[list[TargetName], BeforeValidator(many), AfterValidator(without_repeats)] = Field(
        list(FORECAST_DEVICES),
        description="GPUs, TPUs and groups (tpu, gpu, free, desktop, cloud, all) of config/hardware.csv, e.g. "
        '"A100 SXM 80GB" or v5e-2x2; [] forecasts nothing',
    )
    gpus: Values[PositiveInt] = Field(
        [1],
        description="how many GPUs share a batch: 1, 2, 4 or 8 of a machine, 16 to 512 of nodes of eight",
    )
    workload: Values[Name] | None = Field(None, description="which of the workloads; empty takes all of them")
    precision: Values[Precision | Literal["mixed", "single"]] = Field(
        ["mixed"],
        description="number formats; mixed: mixed_bfloat16 where the device has it, else mixed_float16; single: TF32 "
        "where a GPU has it, else float32",
    )
    batch_size: Values[PositiveInt] | None = Field(
        None, description="batch sizes over all devices; empty takes each workload's largest"
    )
    largest_batch: Bool = Field(False, description="also find the largest batch that fits")
    longest_sequence: Bool = Field(False, description="also find the longest sequence of a language model that fits")
    timeout: PositiveFloat = Field(900, description="seconds after which counting a step counts as hung")


def _default_devices() -> dict[str, Device]:
    return {
        "cpu": Device(kind="cpu"),
        "gpu": Device(kind="gpu"),
        "tpu": Device(kind="tpu", replicas=8, hardware="TPU v2"),
    }


def _default_workloads() -> dict[str, Workload]:
    return {
        "matmul": Workload(batch_size=[2048]),
        "memory_stream": Workload(batch_size=[512]),
        "mnist_cnn": Workload(batch_size=[1024]),
        "fashion_cnn": Workload(batch_size=[128], fraction=[0.1]),
        "shakespeare_lstm": Workload(batch_size=[16], sequence_length=[50], steps_per_epoch=20),
        "weather_gru": Workload(batch_size=[8], sequence_length=[168], steps_per_epoch=20),
        "mnist_official": Workload(batch_size=[1024], device=[]),
        "resnet50": Workload(batch_size=[64], device=[]),
        "decoder": Workload(batch_size=[8], device=[]),
    }


class Only(Section):
    """Narrows what is measured in this call, never what the tables show."""

    device: Values[Name] | None = None
    workload: Values[Name] | None = None
    backend: Values[Backend] | None = None
    precision: Values[Precision] | None = None
    batch_size: Values[PositiveInt] | None = None
    fraction: Values[Fraction] | None = None
    sequence_length: Values[PositiveInt] | None = None
    repeat: Values[PositiveInt] | None = None


class Study(Section):
    """A whole study: what is measured, on which devices, with which data."""

    study: Name = Field("quick", description="results go to results/<study>/")
    seed: Seed = Field(1, description="weights and batch order")
    run_on: Literal["auto", "all"] | Values[Name] = Field(
        "auto", description="auto: devices that this host has; all: every one (for schedulers); or a list of names"
    )
    devices: Annotated[dict[Name, Device], Field(min_length=1)] = Field(
        default_factory=_default_devices, description="the devices to compare, by any name"
    )
    prices: str | None = Field(
        None, description="price sheet in place of $WHICHDEVICE_PRICES and config/prices.csv, with its columns"
    )
    data: Data = Field(default_factory=Data, description="where the datasets come from")
    measure: Measure = Field(default_factory=Measure, description="how speed is timed")
    train: Train = Field(default_factory=Train, description="how learning is followed")
    forecast: Forecasting = Field(
        default_factory=Forecasting, description="what the workloads would take on devices that nobody here has"
    )
    workloads: Annotated[dict[Name, Workload], Field(min_length=1)] = Field(
        default_factory=_default_workloads, description="what is run, by any name"
    )

    @property
    def root(self) -> str:
        """The folder of this study's output, relative to the working directory."""
        return f"results/{self.study}"


class Storage(Section):
    """The place of datasets and results beside this machine. It changes no number, and no result names it."""

    bucket: str | None = Field(
        None, description="gs://name/prefix, or another address or folder; empty keeps everything on this machine"
    )


class StudyFile(Study):
    """The content of a config file: the study, and where its results go, which no result names."""

    storage: Storage = Field(
        default_factory=Storage, description="a bucket for datasets and results: docs/how-to/records.md"
    )
    records: Annotated[list[str], BeforeValidator(many), AfterValidator(without_repeats)] = Field(
        default_factory=list,
        description="results of other machines whose records join the study: folders, .zip files or addresses",
    )
    rename: dict[Name, Name] = Field(
        default_factory=dict, description="names of their devices in this study, e.g. {gpu: a100}"
    )


class Call(StudyFile):
    """A study plus what holds for one call of Snakemake only; never written to the study's config.yaml."""

    only: Only = Field(default_factory=Only, description="narrow what is measured in this call")
    retry: Literal["failed"] | None = Field(
        None, description="failed: take only failed runs; with --forcerun measure they run again"
    )
