"""Read images from IDX files of unsigned bytes, the format of MNIST and Fashion-MNIST, and generate their stand-ins.

IDX layout: two zero bytes, type code 0x08, number of dimensions, one big-endian uint32 per dimension, then the values.
"""

import struct
from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.models.datasets.base import Archive, Array, Arrays, Recipe
from whichdevice.models.datasets.download import read_images, require, unpacked

UINT8 = b"\x00\x00\x08"
SIDE, SQUARE = 28, 4  # pixels of an image, and of a square of its pattern
IMAGE_COUNTS = {"train": 60000, "test": 10000}
ARRAYS = {
    f"{split}_{part}": Array((count, *shape), "uint8")
    for split, count in IMAGE_COUNTS.items()
    for part, shape in (("images", (SIDE, SIDE)), ("labels", ()))
}
LABEL_FILES = {"train": "train_labels", "test": "test_labels"}
TFDS_NOTE = "examples are in TensorFlow Datasets' shuffled order, not in the order of the original files"
FILES = [f"{split}-{part}-ubyte.gz" for split in ("train", "t10k") for part in ("images-idx3", "labels-idx1")]
STANDIN_NOTE = "patterns of squares with noise, generated from the seed; same shapes and sizes as the original"
SHIFT = 2  # pixels, in any direction
IMAGES_AT_ONCE = 2000  # images made at once


def image_recipe(
    name: str,
    url: str,
    sizes: Sequence[int],
    sha256: Sequence[str],
    content_md5: Sequence[str | None] = (None,) * 4,
    **facts: Any,
) -> Recipe:
    """The recipe of a dataset in four IDX files below `url`, in the order of ARRAYS; `facts` are its other fields."""
    archives = tuple(map(Archive, FILES, [url + file for file in FILES], sizes, sha256, content_md5))
    return Recipe(
        name=name,
        archives=archives,
        arrays=ARRAYS,
        counted=LABEL_FILES,
        from_files=partial(read_files, archives=archives),
        from_tfds=partial(read_images, name),
        tfds_name=name,
        tfds_note=TFDS_NOTE,
        standin=partial(generate_images, name),
        standin_note=STANDIN_NOTE,
        **facts,
    )


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


def read_files(folder: Path, archives: tuple[Archive, ...]) -> Arrays:
    """The four arrays from the four files, in the files' order; `archives` are in the order of ARRAYS."""
    paths = {name: require(folder, archive) for name, archive in zip(ARRAYS, archives, strict=True)}
    return {
        name: read_idx(path, ARRAYS[name].shape, below=10 if name.endswith("labels") else 256)
        for name, path in paths.items()
    }


def generate_images(name: str, seed: int, counts: Mapping[str, int] = IMAGE_COUNTS) -> Arrays:
    """Generate the four arrays: each class is a pattern of squares, shifted, of any brightness, under noise.

    A part of another class's pattern shines through, which makes some images hard.
    """
    random = np.random.default_rng([seed, *name.encode()])
    squares = random.random((10, SIDE // SQUARE, SIDE // SQUARE)) < 0.4
    patterns = np.kron(squares, np.ones((SQUARE, SQUARE))).astype(np.float32)
    arrays: Arrays = {}
    for split, count in counts.items():
        labels = random.integers(0, 10, count, dtype=np.uint8)
        starts = range(0, count, IMAGES_AT_ONCE)
        parts = [_images(random, patterns, labels[start : start + IMAGES_AT_ONCE]) for start in starts]
        arrays |= {f"{split}_images": np.concatenate(parts), f"{split}_labels": labels}
    return arrays


def _images(random: np.random.Generator, patterns: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Images uint8 [n, 28, 28] of these classes."""
    count = len(labels)
    shifts = random.integers(-SHIFT, SHIFT + 1, (2, count, 1))
    rows, columns = (np.arange(SIDE) + shifts) % SIDE
    shown, behind = (
        patterns[classes[:, None, None], rows[:, :, None], columns[:, None, :]]
        for classes in (labels, random.integers(0, 10, count))
    )
    ink, haze = random.random((2, count, 1, 1), dtype=np.float32)
    noise = random.random(shown.shape, dtype=np.float32)
    grey = (np.float32(0.4) + np.float32(0.3) * ink) * shown + np.float32(0.5) * haze * behind + np.float32(0.3) * noise
    return (np.minimum(grey, 1) * np.float32(255)).astype(np.uint8)
