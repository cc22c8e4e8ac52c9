"""Read IDX files of unsigned bytes, the format of MNIST and Fashion-MNIST: four files become four arrays.

Layout: two zero bytes, type code 0x08, number of dimensions, one big-endian uint32 per dimension, then the values.
"""

import struct
from math import prod
from pathlib import Path

import numpy as np

from whichdevice.datasets.base import Archive, Array, Arrays
from whichdevice.datasets.sources import require, unpacked
from whichdevice.errors import StudyError

UINT8 = b"\x00\x00\x08"


def parse_idx(data: bytes) -> np.ndarray:
    """The array in `data`, uint8; raises ValueError. Allocates nothing that the header alone asks for."""
    if data[:3] != UINT8 or len(data) < 4:
        raise ValueError(f"no IDX file of unsigned bytes: it starts with {data[:4].hex() or 'nothing'}")
    header = 4 + 4 * data[3]
    if len(data) < header:
        raise ValueError("cut inside its header")
    shape = struct.unpack(f">{data[3]}I", data[4:header])
    if len(data) - header != prod(shape):
        raise ValueError(f"its header says {list(shape)}, but {len(data) - header} values follow")
    if not 1 <= len(shape) <= 8:
        raise ValueError(f"{len(shape)} dimensions")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def read_idx(path: Path, shape: tuple[int, ...], below: int = 256) -> np.ndarray:
    """Read one .gz or plain IDX file of exactly that shape with values under `below`; raises StudyError."""
    data = b"".join(unpacked(path, limit=4 + 4 * len(shape) + prod(shape)))
    try:
        array = parse_idx(data)
    except ValueError as error:
        raise StudyError(f"{path} is cut, corrupted or another file: {error}; get it again") from error
    if array.shape != shape:
        raise StudyError(f"{path} holds {list(array.shape)} values, expected {list(shape)}: it is another file")
    if array.max(initial=0) >= below:
        raise StudyError(f"{path} holds the value {array.max()}, expected 0 to {below - 1}: it is another file")
    return array


ARRAYS = {
    "train_images": Array((60000, 28, 28), "uint8"),
    "train_labels": Array((60000,), "uint8"),
    "test_images": Array((10000, 28, 28), "uint8"),
    "test_labels": Array((10000,), "uint8"),
}
COUNTED = {"train": "train_labels", "test": "test_labels"}
TFDS_NOTE = "examples are in TensorFlow Datasets' shuffled order, not in that of the original files"


def read_files(folder: Path, archives: tuple[Archive, ...]) -> Arrays:
    """The four arrays from the four files, in the files' order; `archives` are in the order of ARRAYS."""
    paths = {name: require(folder, archive) for name, archive in zip(ARRAYS, archives, strict=True)}
    return {
        name: read_idx(path, ARRAYS[name].shape, below=10 if name.endswith("labels") else 256)
        for name, path in paths.items()
    }
