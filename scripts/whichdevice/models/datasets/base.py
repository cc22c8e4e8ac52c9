"""Define a dataset: its `Recipe`, one per file of this folder and found by the file's name, and its dataset.json.

dataset.json holds no times and no paths.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from whichdevice.base.errors import StudyError, did_you_mean
from whichdevice.base.parts import Part
from whichdevice.base.plugins import defining

DATASETS_FOLDER = Path(__file__).parent
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Archive:
    """One original file as published. Checksums are None where none is publicly known."""

    name: str
    url: str
    size: int | None = None
    sha256: str | None = None
    content_md5: str | None = None  # of the uncompressed content, for archives that were packed anew


@dataclass(frozen=True)
class Array:
    """One array of the prepared form."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """Bytes of the array's content."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Recipe:
    """One dataset and the three ways to get its arrays.

    `from_files(folder)` reads the original archives in `folder`; `from_tfds(root)` lets TensorFlow Datasets download
    and prepare below `root`; `standin(seed)` generates arrays of the same shapes. All return the arrays named in
    `arrays`, and raise StudyError when they cannot.
    """

    name: str
    description: str
    citation: str
    licence: str
    archives: tuple[Archive, ...]
    arrays: Mapping[str, Array]
    counted: Mapping[str, str]  # count's name -> the array whose first dimension it is
    from_files: Callable[[Path], Arrays]
    from_tfds: Callable[[Path], Arrays]
    standin: Callable[[int], Arrays]
    tfds_name: str
    tfds_note: str | None = None
    standin_note: str = "generated from the seed; same shapes and sizes as the original, other content"
    class_names: tuple[str, ...] = field(default=())
    columns: tuple[str, ...] = field(default=())

    @property
    def nbytes(self) -> int:
        """Bytes of the prepared form on disk, headers aside."""
        return sum(array.nbytes for array in self.arrays.values())


class ArrayInfo(Part):
    """One array; `sha256` is of its bytes in C order, without the .npy header."""

    shape: list[int]
    dtype: str  # as NumPy writes it, with the order of bytes
    sha256: str


class ArchiveInfo(Part):
    """One original file as it was read. `original` is None where no published checksum is known."""

    name: str
    size: int
    sha256: str
    original: bool | None


class DatasetFacts(Part):
    """The facts of a dataset before its arrays are written."""

    name: str
    source: Literal["tfds", "files", "standin"]
    code: str  # hash of the code that prepared it
    seed: int | None = None  # of a stand-in
    description: str
    citation: str
    licence: str
    notes: list[str] = Field(default_factory=list)
    original: bool | None = None  # every archive matches its published checksum; None: nothing to compare
    archives: list[ArchiveInfo] = Field(default_factory=list)
    class_names: list[str] = Field(default_factory=list)
    columns: list[str] = Field(default_factory=list)
    counts: dict[str, int] = Field(default_factory=dict)


class DatasetInfo(DatasetFacts):
    """The content of dataset.json."""

    arrays: dict[str, ArrayInfo]
    checksum: str  # over names, shapes, types and content of all arrays


def dataset_names() -> list[str]:
    """All datasets, sorted: the files of this folder that define a `RECIPE`."""
    return _names(DATASETS_FOLDER)


@cache
def _names(folder: Path) -> list[str]:
    return defining(folder, "RECIPE")


def get_dataset(name: str) -> Recipe:
    """The dataset of that name; raises StudyError that names the nearest one."""
    if name not in dataset_names():
        raise StudyError(f"no dataset {name}{did_you_mean(name, dataset_names())}")
    recipe: Recipe = importlib.import_module(f"whichdevice.models.datasets.{name}").RECIPE
    return recipe
