"""Fashion-MNIST: 70,000 garments of 28×28 grey values, and drawn garments as its stand-in.

Sizes and sha256 as in TensorFlow Datasets.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from whichdevice.datasets.base import Arrays
from whichdevice.datasets.images import (
    GRID,
    SIDE,
    bell,
    distance,
    drawn,
    image_recipe,
    painted,
    random_warp,
    signed_distance,
)

Points = list[tuple[float, float]]
MARGIN = 2.0


class Outline(NamedTuple):
    """One garment: parts (each a list of closed outlines, holes by even-odd), all joined, and seams across them."""

    parts: list[list[np.ndarray]]
    seams: list[np.ndarray]


def _between(random: np.random.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(random.random())


def _mirrored(random: np.random.Generator, half: Points) -> np.ndarray:
    """A symmetric outline from its left half, top to bottom, slightly jittered."""
    left = np.array(half) + 0.02 * bell(random, len(half), 2)
    right = left[::-1] * [-1, 1] + [1, 0]
    return np.concatenate([left, right])


def _free(random: np.random.Generator, points: Points) -> np.ndarray:
    return np.array(points) + 0.02 * bell(random, len(points), 2)


def _top(
    random: np.random.Generator, sleeve: float, width: float, hem: float, seams: list[Points], tail: float = 0
) -> Outline:
    """A garment with sleeves; `sleeve` from 0 (short) to 1 (wrist), `width` of half the body, `tail` below the hem."""
    neck = _between(random, 0.08, 0.14)
    end_x, end_y = 0.5 - width - 0.2 + 0.05 * sleeve, 0.36 + 0.56 * sleeve
    half = [
        (0.5, 0.05 + 0.5 * neck),
        (0.5 - neck, 0.03),
        (0.5 - width + 0.02, 0.09),
        (end_x, end_y),
        (end_x + 0.13, end_y + 0.04),
        (0.5 - width + 0.01, 0.36),
        (0.5 - width, hem),
        (0.48, hem + tail),
    ]
    return Outline([[_mirrored(random, half)]], [_free(random, seam) for seam in seams])


def t_shirt(random: np.random.Generator) -> Outline:
    """Short sleeves, sometimes a print."""
    x = _between(random, 0.08, 0.14)
    prints: list[Points] = [[(0.5 - x, 0.4), (0.5 + x, 0.4), (0.5 + x, 0.55), (0.5 - x, 0.55)]]
    seams = prints if random.random() < 0.4 else []
    return _top(random, _between(random, 0, 0.25), _between(random, 0.22, 0.28), _between(random, 0.9, 1), seams)


def trouser(random: np.random.Generator) -> Outline:
    """Two legs with a gap."""
    width, hem = _between(random, 0.17, 0.24), _between(random, 0.02, 0.07)
    half = [(0.5 - width, 0.0), (0.5 - width - 0.03, 0.4), (0.5 - width - hem, 1.0), (0.5 - hem, 1.0), (0.5, 0.3)]
    outline = _mirrored(random, half)
    return Outline([[outline]], [_free(random, [(0.5 - width, 0.06), (0.5 + width, 0.06)])])


def pullover(random: np.random.Generator) -> Outline:
    """Long sleeves, closed."""
    seams: list[Points] = [[(0.3, 0.9), (0.7, 0.9)]] if random.random() < 0.5 else []
    return _top(random, _between(random, 0.8, 1), _between(random, 0.21, 0.28), _between(random, 0.88, 0.97), seams)


def dress(random: np.random.Generator) -> Outline:
    """Narrow at the waist, flared at the hem, with or without short sleeves."""
    waist, hem = _between(random, 0.1, 0.17), _between(random, 0.16, 0.34)
    half = [(0.5, 0.1), (0.42, 0.0), (0.34, 0.02)]
    if random.random() < 0.4:
        half += [(0.22, 0.25), (0.29, 0.29)]
    half += [(0.37, 0.22), (0.5 - waist, 0.45), (0.5 - hem, 1.0)]
    return Outline([[_mirrored(random, half)]], [_free(random, [(0.5 - waist, 0.45), (0.5 + waist, 0.45)])])


def coat(random: np.random.Generator) -> Outline:
    """Long sleeves, long and wide body, open or zipped in the middle, with lapels."""
    seams: list[Points] = [[(0.5, 0.1), (0.5, 1.0)]]
    if random.random() < 0.6:
        seams.append([(0.4, 0.04), (0.5, 0.32), (0.6, 0.04)])
    width, hem = _between(random, 0.23, 0.3), _between(random, 0.94, 1.03)
    return _top(random, _between(random, 0.75, 0.95), width, hem, seams, tail=_between(random, -0.09, 0))


def sandal(random: np.random.Generator) -> Outline:
    """A thin sole, a heel of any height, and straps."""
    heel = _between(random, 0.0, 0.3)
    back = 0.78 - heel
    sole = _free(random, [(0.0, 0.8), (0.35, 0.78), (0.95, back), (1.0, back + 0.08), (0.4, 0.88), (0.0, 0.88)])
    parts = [[sole], [_free(random, [(0.9, back), (1.0, back), (0.98, 0.88), (0.92, 0.88)])]]
    for x in [0.08, 0.3, 0.55][: 2 + int(random.integers(0, 2))]:
        lean, wide, top = _between(random, -0.1, 0.2), _between(random, 0.05, 0.1), _between(random, 0.35, 0.6)
        parts.append([_free(random, [(x, 0.8), (x + lean, top), (x + lean + wide, top), (x + wide, 0.8)])])
    parts.append([_free(random, [(0.6, 0.38), (0.98, back - 0.15), (0.98, back - 0.08), (0.6, 0.45)])])
    return Outline(parts, [])


def shirt(random: np.random.Generator) -> Outline:
    """Collar and buttons, often rounded tails; sleeves of any length."""
    sleeve = _between(random, 0.75, 1) if random.random() < 0.6 else _between(random, 0, 0.3)
    seams: list[Points] = [[(0.5, 0.12), (0.5, 0.95)]] if random.random() < 0.8 else []
    if random.random() < 0.7:
        seams.append([(0.4, 0.03), (0.5, 0.16), (0.6, 0.03)])
    width, hem = _between(random, 0.18, 0.24), _between(random, 0.86, 0.95)
    return _top(random, sleeve, width, hem, seams, tail=_between(random, 0, 0.09))


def sneaker(random: np.random.Generator) -> Outline:
    """A low shoe with a sole and laces."""
    top = _between(random, 0.36, 0.46)
    points = [(0.0, 0.68), (0.2, 0.6), (0.45, top + 0.05), (0.62, top), (0.7, top + 0.08), (0.95, top - 0.02)]
    outline = _free(random, [*points, (1.0, 0.6), (1.0, 0.8), (0.02, 0.82)])
    seams = [_free(random, [(0.0, 0.73), (1.0, 0.72)]), _free(random, [(0.35, 0.5), (0.5, 0.68)])]
    return Outline([[outline]], seams)


def bag(random: np.random.Generator) -> Outline:
    """A body with a handle."""
    top, inset = _between(random, 0.35, 0.5), _between(random, 0.0, 0.12)
    body = _mirrored(random, [(0.05 + inset, top), (0.05, 0.92)])
    rise, wide = _between(random, 0.05, top - 0.1), _between(random, 0.2, 0.36)
    outer = _mirrored(random, [(0.5 - wide * 0.7, rise), (0.5 - wide, top + 0.05)])
    inner = _mirrored(random, [(0.55 - wide * 0.7, rise + 0.07), (0.56 - wide, top + 0.05)])
    return Outline([[body], [outer, inner]], [_free(random, [(0.08, top + 0.15), (0.92, top + 0.15)])])


def ankle_boot(random: np.random.Generator) -> Outline:
    """A shoe with a shaft and perhaps a heel."""
    top, heel = _between(random, 0.02, 0.25), _between(random, 0.0, 0.12)
    shaft = [(0.0, 0.75), (0.25, 0.6), (0.5, 0.48), (0.52, top), (0.94, top - 0.02)]
    outline = _free(random, [*shaft, (0.98, 0.94), (0.8, 0.94), (0.75, 0.94 - heel), (0.35, 0.94), (0.02, 0.93)])
    return Outline([[outline]], [_free(random, [(0.02, 0.85), (0.97, 0.84)])])


# In the order of Fashion-MNIST's labels.
GARMENTS = (t_shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle_boot)


def draw_garments(seed: int, counts: dict[str, int] | None = None) -> Arrays:
    """Draw Fashion-MNIST's four arrays with cloth, light and jitter; `counts` makes fewer images of `train` and `test`.

    Shirts, T-shirts, pullovers and coats resemble each other, as they do in the original: their seams can be faint.
    The test set has other outlines than the training set.
    """
    return drawn([seed, 82], counts, _outlines, _draw)


def _outlines(random: np.random.Generator, variants: int) -> tuple[np.ndarray, np.ndarray]:
    """Signed distance to the edge and distance to the nearest seam, each [10 * variants, GRID²]."""
    cloth = np.empty((10 * variants, GRID * GRID), np.float32)
    seams = np.full((10 * variants, GRID * GRID), 9, np.float32)
    for number in range(10 * variants):
        outline = GARMENTS[number // variants](random)
        cloth[number] = np.minimum.reduce([signed_distance(part) for part in outline.parts]).reshape(-1)
        if outline.seams:
            seams[number] = distance(outline.seams).reshape(-1)
    return cloth, seams


def _draw(random: np.random.Generator, outlines: tuple[np.ndarray, np.ndarray], labels: np.ndarray) -> np.ndarray:
    cloth, seams = outlines
    count, variants = len(labels), len(cloth) // 10
    warp = random_warp(random, count, np.ones(count), turn=0.05, scale=0.2, shear=0.14, shift=0.06)
    shape = labels.astype(np.int64) * variants + random.integers(0, variants, count)
    light = _column(0.68 + 0.32 * bell(random, count))
    seam_depth = _column(np.maximum(0.5 + 0.6 * bell(random, count), 0))
    seam_sign = _column(np.where(random.random(count) < 0.7, -1.0, 1.0))
    noise = _column(0.04 + 0.2 * random.random(count))
    pattern = _patterns(random, count)

    def grey(part: slice, index: np.ndarray) -> np.ndarray:
        edge, seam = cloth[shape[part, None], index], seams[shape[part, None], index]
        inside = np.clip(np.float32(0.5) - edge * np.float32(24), 0, 1)
        shade = np.minimum(np.float32(0.78) - edge * np.float32(2.2), 1)
        sewn = np.clip((np.float32(0.045) - seam) * np.float32(30), 0, 1)
        values = light[part] * shade * pattern(part) * (1 + seam_sign[part] * seam_depth[part] * sewn)
        values *= 1 + noise[part] * (random.random(values.shape, dtype=np.float32) - np.float32(0.5)) * 2
        return np.clip(values, 0.04, 1) * inside

    return painted(warp, MARGIN, grey)


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


RECIPE = image_recipe(
    "fashion_mnist",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    sizes=(26421880, 29515, 4422102, 5148),
    sha256=(
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
    description="70,000 garments from a shop's catalogue, 28×28 grey values, ten classes",
    citation="Xiao, H., Rasul, K., Vollgraf, R.: Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine "
    "Learning Algorithms. 2017. arXiv:1708.07747",
    licence="MIT, Zalando SE",
    standin=draw_garments,
    standin_note="drawn garments with texture and jitter, generated from the seed; same shapes and sizes as "
    "Fashion-MNIST, other images",
    class_names=(
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ),
)  # fmt: skip
