"""What a dataset says about itself: a `Recipe`, one per file of this folder, found by the file's name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np

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
