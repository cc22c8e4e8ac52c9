"""The files beside a record that figures draw from: taken where they are what the record says and of their form.

A record and its files may come from elsewhere, so nothing in them is trusted: not that they can be read, not that they
are small, not that an index stays inside its array.
"""

import hashlib
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter

from whichdevice.errors import StudyError
from whichdevice.records.schema import Integer
from whichdevice.records.store import artefact_path, read_record

MOST_BYTES = 2**28  # of a file, packed and unpacked; the largest of ours has some megabytes
MOST_NAMES = 100  # classes or signals that a figure has room for
LONGEST_NAME = 60
IMAGE = (28, 28)
TIMES = (-7_000_000_000, 7_000_000_000)  # seconds since 1970: the years 1748 to 2191

Arrays = dict[str, np.ndarray]


class Sample(BaseModel):
    """What a text model wrote after an epoch."""

    epoch: Integer
    texts: list[str] = Field(max_length=1000)


SAMPLES = TypeAdapter(list[Sample])


def read_artefact(record_path: Path, name: str) -> Any:
    """One file beside a record: arrays by name, or for `samples` a list; None where the run kept none, or it is gone.

    Raises StudyError in one line where it is another file than the record says, or not of its form.
    """
    artefact = read_record(record_path).artefacts.get(name)
    path = None if artefact is None else artefact_path(record_path, artefact)
    if artefact is None or path is None:
        return None
    try:
        if path.stat().st_size > MOST_BYTES:
            raise StudyError(f"{path}: {path.stat().st_size / 1e6:.0f} MB are too many to draw")
        content = path.read_bytes()
    except OSError as error:
        raise StudyError(f"{path}: cannot be read: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != artefact.sha256:
        raise StudyError(f"{path}: differs from its checksum in the record")
    try:
        return FORMS[name](content)
    except Exception as error:  # the bytes may be a stranger's, and what they make a parser raise is nowhere said
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
