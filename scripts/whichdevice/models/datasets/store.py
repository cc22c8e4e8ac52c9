"""Prepared datasets on disk: a folder with one .npy per array and dataset.json, written whole or not at all.

Arrays load memory-mapped with NumPy alone. dataset.json holds no times and no paths, so the same data gives the
same file anywhere.
"""

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from whichdevice.base.errors import StudyError, first_line
from whichdevice.models.datasets.base import ArrayInfo, Arrays, DatasetFacts, DatasetInfo

INFO = "dataset.json"
SLACK = 2**20  # bytes for headers, dataset.json and the file system's own needs
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Dataset:
    """A prepared dataset: read-only, memory-mapped arrays and what is known of them."""

    arrays: Arrays
    info: DatasetInfo


def check_room(folder: Path, nbytes: int, name: str) -> None:
    """Raise StudyError when the file system that will hold `folder` has less than `nbytes` free."""
    place = folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < nbytes + SLACK:
        raise StudyError(_no_room(name, folder, nbytes) + f" ({free / 1e6:.0f} MB free)")


def write_dataset(folder: Path, arrays: Arrays, facts: DatasetFacts) -> DatasetInfo:
    """Write a prepared dataset atomically, in place of an older one; raises StudyError when the disk is full."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    described = {name: _describe(array) for name, array in arrays.items()}
    info = DatasetInfo(**facts.model_dump(), arrays=described, checksum=_checksum(described))
    nbytes = sum(array.nbytes for array in arrays.values())
    check_room(folder, nbytes, facts.name)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _only_writer(folder):
            _write_and_replace(folder, arrays, info)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StudyError(_no_room(facts.name, folder, nbytes)) from error
        raise StudyError(f"{facts.name}: cannot write {folder}: {error.strerror or error}") from error
    return info


def adopt_dataset(aside: Path, folder: Path) -> DatasetInfo:
    """Put a prepared dataset that came whole from elsewhere in the place of `folder`, its content checked first.

    Raises StudyError where it is not what its checksums say; `folder` is then as it was.
    """
    info = load_dataset(aside, verify=True).info
    with _only_writer(folder):
        _replace(folder, aside)
    return info


def load_dataset(folder: Path, verify: bool = False) -> Dataset:
    """Open a prepared dataset; arrays stay on disk until read.

    Raises StudyError that names the file when one is missing, cut or of another shape, and with `verify` also when
    its content differs from its checksum.
    """
    info = read_info(folder)
    if verify and info.checksum != _checksum(info.arrays):
        raise StudyError(f"{folder / INFO} differs from its checksum; {_mend(folder)}")
    arrays = {}
    for name, expected in info.arrays.items():
        path = folder / f"{name}.npy"
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # a header is Python text: a flipped bit in it may raise anything
            raise StudyError(f"cannot read {path}: {first_line(error)}; {_mend(folder)}") from error
        if list(array.shape) != expected.shape or array.dtype.str != expected.dtype:
            raise StudyError(f"{path} holds {array.dtype}{list(array.shape)}, not what {INFO} says; {_mend(folder)}")
        if verify and _describe(array) != expected:
            raise StudyError(f"{path} differs from its checksum; {_mend(folder)}")
        arrays[name] = array
    return Dataset(arrays, info)


def read_info(folder: Path) -> DatasetInfo:
    """Read dataset.json alone; raises StudyError when it is missing or garbled."""
    path = folder / INFO
    try:
        return DatasetInfo.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror or error}; {_mend(folder)}") from error
    except ValidationError as error:
        raise StudyError(f"{path} is garbled or of another version; {_mend(folder)}") from error


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the kernel frees with the process; then anything left aside is from a dead run."""
    with folder.with_name(f".{folder.name}.lock").open("a") as lock:
        with suppress(OSError):  # a file system without locks cannot stop the work
            fcntl.flock(lock, fcntl.LOCK_EX)
        _tidy(folder)
        try:
            yield
        finally:
            _tidy(folder)


def _aside(folder: Path) -> tuple[Path, Path]:
    return folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")


def _tidy(folder: Path) -> None:
    """Undo an unfinished replacement: the old folder comes back, the new one goes."""
    new, old = _aside(folder)
    if old.exists() and not folder.exists():
        old.rename(folder)
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)


def _write_and_replace(folder: Path, arrays: Arrays, info: DatasetInfo) -> None:
    """Write beside the folder, then take its place; a reader meets a whole dataset or none."""
    new, _ = _aside(folder)
    new.mkdir()
    for name, array in arrays.items():
        with (new / f"{name}.npy").open("wb") as file:
            # np.save would hide the cause of a failed write (it raises OSError without errno)
            np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
            file.write(_bytes(array))
            file.flush()
            os.fsync(file.fileno())
    with (new / INFO).open("w", encoding="utf-8") as text:
        text.write(info.model_dump_json(indent=1) + "\n")
        text.flush()
        os.fsync(text.fileno())
    _replace(folder, new)


def _replace(folder: Path, new: Path) -> None:
    if folder.exists():
        folder.rename(_aside(folder)[1])
    new.rename(folder)


def _describe(array: np.ndarray) -> ArrayInfo:
    digest = hashlib.sha256(_bytes(np.ascontiguousarray(array)))
    return ArrayInfo(shape=list(array.shape), dtype=array.dtype.str, sha256=digest.hexdigest())


def _bytes(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _checksum(arrays: dict[str, ArrayInfo]) -> str:
    lines = [f"{name} {info.dtype} {info.shape} {info.sha256}\n" for name, info in sorted(arrays.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _no_room(name: str, folder: Path, nbytes: int) -> str:
    return f"{name}: no room on disk: {folder} needs {nbytes / 1e6:.0f} MB; free some space and run again"


def _mend(folder: Path) -> str:
    return f"delete {folder} and run again"
