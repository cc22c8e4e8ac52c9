"""Read what figures and the report are made of: a study's tables, and the files beside the records of its best runs.

A record and its files may come from another machine, so each file is checked before use: its size, its form, and
that indices stay inside their arrays.
"""

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, Field, TypeAdapter

from whichdevice.answer import Answer, answers
from whichdevice.config.hardware import hardware_rows
from whichdevice.config.load import read_study
from whichdevice.config.model import Study
from whichdevice.config.prices import price_sheet
from whichdevice.errors import StudyError
from whichdevice.records.schema import Integer
from whichdevice.records.store import artefact_path
from whichdevice.study_cells import workflow_command
from whichdevice.tables import comparison
from whichdevice.tables.base import read_table
from whichdevice.tables.hardware import sheet_row
from whichdevice.tables.make import TABLES
from whichdevice.tables.measured import timed
from whichdevice.tables.runs import NOT_MEASURED

MOST_BYTES = 2**28  # of a file, packed and unpacked; the largest of ours has some megabytes
MOST_NAMES = 100  # classes or signals that a figure has room for
LONGEST_NAME = 60
IMAGE = (28, 28)
FEW_POINTS = "few-points"  # in the SVG of a figure of no point or one, which the report leaves out
TIMES = (-7_000_000_000, 7_000_000_000)  # seconds since 1970: the years 1748 to 2191

Arrays = dict[str, np.ndarray]


class Sample(BaseModel):
    """What a text model wrote after an epoch."""

    epoch: Integer
    texts: list[str] = Field(max_length=1000)


SAMPLES = TypeAdapter(list[Sample])


def read_artefact(record_path: Path, name: str, file: str, sha256: str) -> Any:
    """Return what a file of table `artefacts` holds: arrays by name, or for `samples` a list; None where it is gone.

    Raises StudyError in one line where the file has another checksum or is not of its form.
    """
    path = artefact_path(record_path, file)
    if path is None:
        return None
    try:
        if path.stat().st_size > MOST_BYTES:
            raise StudyError(f"{path}: {path.stat().st_size / 1e6:.0f} MB are too many to draw")
        content = path.read_bytes()
    except OSError as error:
        raise StudyError(f"{path}: cannot be read: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise StudyError(f"{path}: differs from its checksum in the record")
    try:
        return FORMS[name](content)
    except Exception as error:  # a parser may raise anything on foreign bytes
        why = " ".join(str(error).split())[:100] or type(error).__name__
        raise StudyError(f"{path}: is no file of {name}: {why}") from error


def _arrays(content: bytes) -> Arrays:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        if sum(member.file_size for member in packed.infolist()) > MOST_BYTES:
            raise ValueError("it unpacks to far more than such a file holds")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _predictions(content: bytes) -> Arrays:
    """labels and predicted int [n], probabilities [n, classes], class_names [classes], a gallery of some images."""
    arrays = _arrays(content)
    labels, probabilities = arrays["labels"], arrays["probabilities"]
    classes, index = len(_names(arrays["class_names"])), arrays["gallery_index"]
    _require(labels.ndim == 1 and len(labels) > 0, "labels are no row")
    _require(probabilities.shape == (len(labels), classes), "probabilities are not one for each image and class")
    _require(probabilities.dtype.kind == "f", "probabilities are no numbers")
    _require(_all_within(labels, 0, classes), "a label is no class")
    if "predicted" in arrays:
        _require(arrays["predicted"].shape == labels.shape, "predicted are not as many as labels")
        _require(_all_within(arrays["predicted"], 0, classes), "a predicted class is none")
    _require(index.ndim == 1 and _all_within(index, 0, len(labels)), "the gallery shows images that there are not")
    pictures = arrays["gallery_images"]
    _require(pictures.shape == (len(index), *IMAGE) and pictures.dtype == np.uint8, "the gallery holds no images")
    return arrays


def _forecast(content: bytes) -> Arrays:
    """times int [hours], truth and predicted float [hours, signals], names and units [signals], warm_up, split."""
    arrays = _arrays(content)
    times, names = arrays["times"], _names(arrays["names"])
    _require(len(_names(arrays["units"])) == len(names), "units are not as many as names")
    _require(times.ndim == 1 and len(times) > 0 and _all_within(times, *TIMES), "times are none")
    for name in ("truth", "predicted"):
        right = arrays[name].shape == (len(times), len(names)) and arrays[name].dtype.kind == "f"
        _require(right, f"{name} is not one number for each time and signal")
    warm_up = arrays["warm_up"]
    _require(warm_up.ndim == 0 and _all_within(warm_up, 0, 2**31), "warm_up is no number of steps")
    _require(arrays["split"].ndim == 0 and len(_names(arrays["split"][None])) == 1, "split is no name")
    return arrays


def _samples(content: bytes) -> list[dict[str, Any]]:
    return [sample.model_dump() for sample in SAMPLES.validate_json(content)]


FORMS: dict[str, Callable[[bytes], Any]] = {
    "predictions": _predictions,
    "forecast": _forecast,
    "samples": _samples,
}


def _names(array: np.ndarray) -> list[str]:
    _require(array.ndim == 1 and array.dtype.kind == "U" and 0 < len(array) <= MOST_NAMES, "names are no texts")
    names = [str(name) for name in array]
    _require(all(name.isprintable() and len(name) <= LONGEST_NAME for name in names), "a name cannot be printed")
    return names


def _all_within(array: np.ndarray, low: int, high: int) -> bool:
    """Whether an array holds integers from `low` up to, not including, `high`."""
    return array.dtype.kind in "iu" and (array.size == 0 or (int(array.min()) >= low and int(array.max()) < high))


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


class Shown(NamedTuple):
    """An artefact and the row of `runs` that it belongs to."""

    run: pd.Series
    content: Any


class StudyResults:
    """A study's config and tables, each read when first asked for."""

    def __init__(self, config_path: Path, tables_folder: Path) -> None:
        self.config_path = Path(config_path)
        self.tables_folder = Path(tables_folder)
        self.left_out: dict[str, str] = {}  # runs with a damaged artefact, and what is wrong with it

    @cached_property
    def study(self) -> Study:
        """The resolved config."""
        return read_study(self.config_path)

    def __getattr__(self, name: str) -> pd.DataFrame:
        """Return the table of this name, e.g. `results.summary`; `compare` is made by `snakemake compare` only."""
        columns = comparison.COLUMNS if name == "compare" else TABLES.get(name)
        if columns is None:
            raise AttributeError(f"no table {name!r}")
        self.__dict__[name] = read_table(self.tables_folder / f"{name}.csv", columns)
        return self.__dict__[name]

    @cached_property
    def measured(self) -> pd.DataFrame:
        """The rows of `summary` with at least one run whose speed counts."""
        return self.summary[self.summary["n_timed"].fillna(0) > 0]

    @cached_property
    def answers(self) -> list[Answer]:
        """The answer for each piece of work, as `ask` gives it."""
        sheet = hardware_rows(prices=price_sheet(self.study.prices))
        named = self.summary.dropna(subset=["device_name"]).groupby("device")["device_name"].first()
        hardware = {name: sheet_row(name, named.get(name), self.study, sheet) for name in self.study.devices}
        return answers(self.summary, self.costs, self.forecasts, None, hardware, sheet)

    @property
    def devices(self) -> list[str]:
        """Devices with measured numbers, in the order of the config, then others."""
        found = self.measured["device"].unique().tolist()
        return [name for name in self.study.devices if name in found] + [
            name for name in found if name not in self.study.devices
        ]

    @property
    def absent(self) -> dict[str, str]:
        """Configured devices without any good run, each with the command that measures it."""
        missing = [name for name in self.study.devices if name not in self.devices]
        return {name: workflow_command(self.study, self.study.devices[name].kind) for name in missing}

    @property
    def other_machines(self) -> set[str]:
        """Devices that only another machine measures; their records are merged."""
        return set(self.runs.loc[self.runs["other_machine"].fillna(False), "device"])

    def kind(self, device: str) -> str:
        """cpu, gpu or tpu."""
        if device in self.study.devices:
            return self.study.devices[device].kind
        kinds = self.runs.loc[self.runs["device"] == device, "kind"].dropna()
        return str(kinds.iloc[0]) if len(kinds) else "cpu"

    @cached_property
    def sources(self) -> dict[str, list[str]]:
        """Data source to the datasets that came from it, over the good runs."""
        good = timed(self.runs)
        good = good[good["source"].notna()]
        found: dict[str, list[str]] = {}
        for source, group in good.groupby("source"):
            found[str(source)] = sorted(group["dataset"].dropna().unique())
        return found

    @property
    def attempted(self) -> pd.DataFrame:
        """The rows of `runs` that left a record."""
        return self.runs[self.runs["status"] != NOT_MEASURED]

    def best_artefacts(self, name: str, one_per: Sequence[str] = ("workload", "device")) -> Iterator[Shown]:
        """The artefact of the best learning run of each group, in table order; damaged ones go to `left_out`.

        Best: the most training data, then the most epochs, then the best final validation metric, else the lowest loss.
        """
        good = self.runs[(self.runs["status"] == "ok") & self.runs["learned_epochs"].notna()].copy()
        good["quality"] = good["validation_metric"].fillna(-good["validation_loss"])
        good = good.sort_values(["fraction", "learned_epochs", "quality"], ascending=False, kind="stable")
        groups: dict[Any, list[pd.Series]] = {}
        for _, run in good.iterrows():
            groups.setdefault(tuple(run[axis] for axis in one_per), []).append(run)
        order = self.runs[list(one_per)].drop_duplicates().itertuples(index=False, name=None)
        files = self.artefacts[self.artefacts["name"] == name].set_index("run")
        for key in order:
            for run in groups.get(key, []):
                if run["run"] not in files.index:
                    continue
                try:
                    content = read_artefact(Path(run["record"]), name, *files.loc[run["run"], ["file", "sha256"]])
                except StudyError as error:
                    self.left_out[str(run["run"])] = str(error)
                    continue
                if content is not None:
                    yield Shown(run, content)
                    break

    def damaged_artefacts(self) -> dict[str, str]:
        """Every run that the figures of this study pass over for its damaged files, and what is wrong with them."""
        for name in FORMS:
            for _ in self.best_artefacts(name):
                pass
        return dict(sorted(self.left_out.items()))
