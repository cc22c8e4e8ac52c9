"""Stand-in for Fashion-MNIST: ten garments cut as in `cuts`, with cloth, light and jitter.

Shirts, T-shirts, pullovers and coats resemble each other, as they do in the original: their seams can be faint.
The test set's cuts are not those of the training set.
"""

from collections.abc import Callable

import numpy as np

from whichdevice.datasets.base import Arrays
from whichdevice.datasets.standin.cuts import CUTS
from whichdevice.datasets.standin.shapes import (
    GRID,
    SIDE,
    bell,
    distance,
    random_warp,
    sample_index,
    signed_distance,
)

VARIANTS = {"train": 40, "test": 20}
COUNTS = {"train": 60000, "test": 10000}
MARGIN = 2.0
BATCH = 2000


def draw_garments(seed: int, counts: dict[str, int] | None = None) -> Arrays:
    """Fashion-MNIST's four arrays; `counts` makes fewer images of `train` and `test`."""
    arrays: Arrays = {}
    for split, stream in zip(("train", "test"), np.random.SeedSequence([seed, 82]).spawn(2), strict=True):
        random = np.random.Generator(np.random.PCG64(stream))
        count = (counts or COUNTS)[split]
        cloth, seams = _cut(random, VARIANTS[split])
        labels = random.integers(0, 10, count, dtype=np.uint8)
        arrays |= {f"{split}_images": _draw(random, cloth, seams, labels), f"{split}_labels": labels}
    return arrays


def _cut(random: np.random.Generator, variants: int) -> tuple[np.ndarray, np.ndarray]:
    """Signed distance to the edge and distance to the nearest seam, each [10 * variants, GRID²]."""
    cloth = np.empty((10 * variants, GRID * GRID), np.float32)
    seams = np.full((10 * variants, GRID * GRID), 9, np.float32)
    for number in range(10 * variants):
        cut = CUTS[number // variants](random)
        cloth[number] = np.minimum.reduce([signed_distance(part) for part in cut.parts]).reshape(-1)
        if cut.seams:
            seams[number] = distance(cut.seams).reshape(-1)
    return cloth, seams


def _draw(random: np.random.Generator, cloth: np.ndarray, seams: np.ndarray, labels: np.ndarray) -> np.ndarray:
    count, variants = len(labels), len(cloth) // 10
    warp = random_warp(random, count, np.ones(count), turn=0.05, scale=0.2, shear=0.14, shift=0.06)
    shape = labels.astype(np.int64) * variants + random.integers(0, variants, count)
    light = _column(0.68 + 0.32 * bell(random, count))
    seam_depth = _column(np.maximum(0.5 + 0.6 * bell(random, count), 0))
    seam_sign = _column(np.where(random.random(count) < 0.7, -1.0, 1.0))
    noise = _column(0.04 + 0.2 * random.random(count))
    pattern = _patterns(random, count)
    images = np.empty((count, SIDE * SIDE), np.uint8)
    for start in range(0, count, BATCH):
        part = slice(start, start + BATCH)
        index = sample_index(warp.rows(part), MARGIN)
        edge, seam = cloth[shape[part, None], index], seams[shape[part, None], index]
        inside = np.clip(np.float32(0.5) - edge * np.float32(24), 0, 1)
        shade = np.minimum(np.float32(0.78) - edge * np.float32(2.2), 1)
        sewn = np.clip((np.float32(0.045) - seam) * np.float32(30), 0, 1)
        grey = light[part] * shade * pattern(part) * (1 + seam_sign[part] * seam_depth[part] * sewn)
        grey *= 1 + noise[part] * (random.random(grey.shape, dtype=np.float32) - np.float32(0.5)) * 2
        images[part] = (np.clip(grey, 0.04, 1) * inside * np.float32(255)).astype(np.uint8)
    return images.reshape(count, SIDE, SIDE)


def _patterns(random: np.random.Generator, count: int) -> Callable[[slice], np.ndarray]:
    """Stripes across, along or slanted, of any width and contrast; most cloth is plain."""
    kind = random.integers(0, 3, count)
    per_image = _column(2 + 6 * random.random(count))
    across = np.where(kind == 0, 1.0, np.where(kind == 1, 0.0, 0.7))
    along = np.where(kind == 0, 0.0, np.where(kind == 1, 1.0, 0.7))
    depth = _column(np.where(random.random(count) < 0.35, random.random(count) * 0.7, 0.0))
    phase, across, along = _column(random.random(count)), _column(across), _column(along)
    line = (np.arange(SIDE, dtype=np.float32) + np.float32(0.5)) / np.float32(SIDE)
    u, v = np.tile(line, SIDE)[None], np.repeat(line, SIDE)[None]

    def brightness(part: slice) -> np.ndarray:
        turns = (across[part] * u + along[part] * v) * per_image[part] + phase[part]
        return 1 - depth[part] * (np.abs(turns % 1 - np.float32(0.5)) > np.float32(0.25))

    return brightness


def _column(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32)[:, None]
