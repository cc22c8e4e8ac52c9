"""Read images from IDX files of unsigned bytes, the format of MNIST and Fashion-MNIST, and draw shapes for stand-ins.

IDX layout: two zero bytes, type code 0x08, number of dimensions, one big-endian uint32 per dimension, then the values.

Drawn shapes are distance fields, from which images are sampled under random warps. A field covers the square
[LOW, HIGH]² around the unit square in which shapes are drawn (x to the right, y down) on a GRID×GRID raster. Rendering
a field once per shape and sampling it once per pixel draws 70,000 images in seconds.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from whichdevice.datasets.base import Archive, Array, Arrays, Recipe
from whichdevice.datasets.download import read_images, require, unpacked
from whichdevice.errors import StudyError

UINT8 = b"\x00\x00\x08"
ARRAYS = {
    "train_images": Array((60000, 28, 28), "uint8"),
    "train_labels": Array((60000,), "uint8"),
    "test_images": Array((10000, 28, 28), "uint8"),
    "test_labels": Array((10000,), "uint8"),
}
COUNTED = {"train": "train_labels", "test": "test_labels"}
TFDS_NOTE = "examples are in TensorFlow Datasets' shuffled order, not in the order of the original files"
FILES = [f"{split}-{part}-ubyte.gz" for split in ("train", "t10k") for part in ("images-idx3", "labels-idx1")]
GRID, LOW, HIGH = 112, -0.25, 1.25
SIDE = 28  # pixels of an image
COUNTS = {"train": 60000, "test": 10000}
VARIANTS = {"train": 40, "test": 20}  # of each class: the test set has other shapes than the training set
BATCH = 2000  # images drawn at once
Shapes = TypeVar("Shapes")


def image_recipe(
    name: str,
    url: str,
    sizes: Sequence[int],
    sha256: Sequence[str],
    content_md5: Sequence[str | None] = (None,) * 4,
    **facts: Any,
) -> Recipe:
    """The recipe of a dataset in four IDX files below `url`, in the order of ARRAYS; `facts` are its other fields."""
    each = zip(FILES, sizes, sha256, content_md5, strict=True)
    archives = tuple(Archive(file, url + file, size, sha, md5) for file, size, sha, md5 in each)
    return Recipe(
        name=name,
        archives=archives,
        arrays=ARRAYS,
        counted=COUNTED,
        from_files=partial(read_files, archives=archives),
        from_tfds=partial(read_images, name),
        tfds_name=name,
        tfds_note=TFDS_NOTE,
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


def bell(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Bell-shaped random numbers in (-1, 1), standard deviation 0.41: two uniforms, the same on every platform."""
    return random.random(shape) + random.random(shape) - 1.0


def distance(strokes: list[np.ndarray]) -> np.ndarray:
    """Distance of each raster point to the nearest segment of the strokes ([n, 2] points each), float32."""
    starts = np.concatenate([stroke[:-1] for stroke in strokes])
    ends = np.concatenate([stroke[1:] for stroke in strokes])
    x, y = _raster()
    nearest = np.full((GRID, GRID), 9.0)
    for (x0, y0), (x1, y1) in zip(starts, ends, strict=True):
        dx, dy = x1 - x0, y1 - y0
        along = ((x - x0) * dx + (y - y0) * dy) / max(dx * dx + dy * dy, 1e-12)
        along = np.minimum(np.maximum(along, 0.0), 1.0)
        off_x, off_y = x0 + along * dx - x, y0 + along * dy - y
        np.minimum(nearest, off_x * off_x + off_y * off_y, out=nearest)
    return np.sqrt(nearest).astype(np.float32)


def signed_distance(outlines: list[np.ndarray]) -> np.ndarray:
    """Distance to closed outlines, negative inside; where outlines overlap an even number of times is outside."""
    closed = [np.concatenate([outline, outline[:1]]) for outline in outlines]
    x, y = _raster()
    inside = np.zeros((GRID, GRID), bool)
    for outline in closed:
        for (x0, y0), (x1, y1) in pairwise(outline):
            if y0 != y1:
                crosses = ((y0 <= y) != (y1 <= y)) & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
                inside ^= crosses
    return np.where(inside, -1.0, 1.0).astype(np.float32) * distance(closed)


def smooth(points: np.ndarray, pieces: int = 4) -> np.ndarray:
    """A Catmull-Rom curve through the points, `pieces` segments between two of them."""
    before = np.concatenate([points[:1], points, points[-1:]])
    t = (np.arange(pieces) / pieces)[:, None]
    parts = []
    for a, b, c, d in zip(before[:-3], before[1:-2], before[2:-1], before[3:], strict=True):
        parts.append(b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a))))
    return np.concatenate([*parts, points[-1:]])


@dataclass
class Warp:
    """From a pixel (u, v) in ±0.5 to the drawing: a matrix, a bend and a shift, one row per image, float32 [n, 1].

    x = xx·u + xy·v + bend_x·v² + shift_x + 0.5, and the same for y.
    """

    xx: np.ndarray
    xy: np.ndarray
    yx: np.ndarray
    yy: np.ndarray
    bend_x: np.ndarray
    bend_y: np.ndarray
    shift_x: np.ndarray
    shift_y: np.ndarray

    def rows(self, part: slice) -> "Warp":
        """The warps of some images."""
        return Warp(**{name: values[part] for name, values in vars(self).items()})


def random_warp(
    random: np.random.Generator, count: int, amount: np.ndarray, turn: float, scale: float, shear: float, shift: float
) -> Warp:
    """Random warps; `amount` [n] multiplies the limits of each: tan of half the turn, scale, shear, shift."""
    half = turn * amount * bell(random, count)
    cosine, sine = (1 - half * half) / (1 + half * half), 2 * half / (1 + half * half)
    wide, high = 1 + scale * amount * bell(random, count), 1 + scale * amount * bell(random, count)
    lean = shear * amount * bell(random, count)
    values = {
        "xx": wide * cosine,
        "xy": lean * cosine - high * sine,
        "yx": wide * sine,
        "yy": high * cosine + lean * sine,
        "bend_x": 0.6 * shear * amount * bell(random, count),
        "bend_y": 0.6 * shear * amount * bell(random, count),
        "shift_x": shift * amount * bell(random, count),
        "shift_y": shift * amount * bell(random, count),
    }
    return Warp(**{name: value.astype(np.float32)[:, None] for name, value in values.items()})


def sample_index(warp: Warp, margin: float) -> np.ndarray:
    """Flat raster index of each pixel, int32 [n, SIDE²]; `margin` pixels of the image lie around the unit square."""
    line = (np.arange(SIDE, dtype=np.float32) + np.float32(0.5 - SIDE / 2)) / np.float32(SIDE - 2 * margin)
    u, v = np.tile(line, SIDE)[None], np.repeat(line, SIDE)[None]
    x = warp.xx * u + warp.xy * v + warp.bend_x * (v * v) + warp.shift_x
    y = warp.yx * u + warp.yy * v + warp.bend_y * (u * u) + warp.shift_y
    cells = np.float32(GRID / (HIGH - LOW))
    column = np.clip((x + np.float32(0.5 - LOW)) * cells, 0, GRID - 1).astype(np.int32)
    row = np.clip((y + np.float32(0.5 - LOW)) * cells, 0, GRID - 1).astype(np.int32)
    return row * np.int32(GRID) + column


def _raster() -> tuple[np.ndarray, np.ndarray]:
    line = LOW + (np.arange(GRID) + 0.5) * ((HIGH - LOW) / GRID)
    return line[None, :], line[:, None]


def drawn(
    seed: Sequence[int],
    counts: dict[str, int] | None,
    shapes: Callable[[np.random.Generator, int], Shapes],
    images: Callable[[np.random.Generator, Shapes, np.ndarray], np.ndarray],
) -> Arrays:
    """Draw the four arrays: `shapes` makes so many variants of each class, `images` draws one for each label."""
    arrays: Arrays = {}
    for split, stream in zip(COUNTS, np.random.SeedSequence(seed).spawn(2), strict=True):
        random = np.random.Generator(np.random.PCG64(stream))
        own = shapes(random, VARIANTS[split])
        labels = random.integers(0, 10, (counts or COUNTS)[split], dtype=np.uint8)
        arrays |= {f"{split}_images": images(random, own, labels), f"{split}_labels": labels}
    return arrays


def painted(warp: Warp, margin: float, grey: Callable[[slice, np.ndarray], np.ndarray]) -> np.ndarray:
    """Images uint8 [n, 28, 28]; `grey` gives values in 0 to 1 of some images, from the raster index of each pixel."""
    images = np.empty((len(warp.xx), SIDE * SIDE), np.uint8)
    for start in range(0, len(images), BATCH):
        part = slice(start, start + BATCH)
        images[part] = (grey(part, sample_index(warp.rows(part), margin)) * np.float32(255)).astype(np.uint8)
    return images.reshape(-1, SIDE, SIDE)
