"""The content of dataset.json: what is known of a prepared dataset. It holds no times and no paths."""

from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class Part(BaseModel):
    """A part of dataset.json; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


def _known_type(name: str) -> str:
    try:
        np.dtype(name)
    except Exception as error:  # it parses names of its own, and what they make it raise is nowhere said
        raise ValueError(f"{name[:20]!r} is no NumPy type") from error
    return name


class ArrayInfo(Part):
    """One array; `sha256` is of its bytes in C order, without the .npy header."""

    shape: list[int]
    dtype: Annotated[str, AfterValidator(_known_type)]
    sha256: str


class ArchiveInfo(Part):
    """One original file as it was read. `original` is None where no published checksum is known."""

    name: str
    size: int
    sha256: str
    original: bool | None


class DatasetFacts(Part):
    """What is known of a dataset before its arrays are written."""

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
