"""How the ten garments of the Fashion-MNIST stand-in are cut: outlines and seams in the unit square, y down."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from whichdevice.datasets.standin.shapes import bell

Points = list[tuple[float, float]]


class Cut(NamedTuple):
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
) -> Cut:
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
    return Cut([[_mirrored(random, half)]], [_free(random, seam) for seam in seams])


def t_shirt(random: np.random.Generator) -> Cut:
    """Short sleeves, sometimes a print."""
    x = _between(random, 0.08, 0.14)
    prints: list[Points] = [[(0.5 - x, 0.4), (0.5 + x, 0.4), (0.5 + x, 0.55), (0.5 - x, 0.55)]]
    seams = prints if random.random() < 0.4 else []
    return _top(random, _between(random, 0, 0.25), _between(random, 0.22, 0.28), _between(random, 0.9, 1), seams)


def trouser(random: np.random.Generator) -> Cut:
    """Two legs with a gap."""
    width, hem = _between(random, 0.17, 0.24), _between(random, 0.02, 0.07)
    half = [(0.5 - width, 0.0), (0.5 - width - 0.03, 0.4), (0.5 - width - hem, 1.0), (0.5 - hem, 1.0), (0.5, 0.3)]
    outline = _mirrored(random, half)
    return Cut([[outline]], [_free(random, [(0.5 - width, 0.06), (0.5 + width, 0.06)])])


def pullover(random: np.random.Generator) -> Cut:
    """Long sleeves, closed."""
    seams: list[Points] = [[(0.3, 0.9), (0.7, 0.9)]] if random.random() < 0.5 else []
    return _top(random, _between(random, 0.8, 1), _between(random, 0.21, 0.28), _between(random, 0.88, 0.97), seams)


def dress(random: np.random.Generator) -> Cut:
    """Narrow at the waist, flared at the hem, with or without short sleeves."""
    waist, hem = _between(random, 0.1, 0.17), _between(random, 0.16, 0.34)
    half = [(0.5, 0.1), (0.42, 0.0), (0.34, 0.02)]
    if random.random() < 0.4:
        half += [(0.22, 0.25), (0.29, 0.29)]
    half += [(0.37, 0.22), (0.5 - waist, 0.45), (0.5 - hem, 1.0)]
    return Cut([[_mirrored(random, half)]], [_free(random, [(0.5 - waist, 0.45), (0.5 + waist, 0.45)])])


def coat(random: np.random.Generator) -> Cut:
    """Long sleeves, long and wide body, open or zipped in the middle, with lapels."""
    seams: list[Points] = [[(0.5, 0.1), (0.5, 1.0)]]
    if random.random() < 0.6:
        seams.append([(0.4, 0.04), (0.5, 0.32), (0.6, 0.04)])
    width, hem = _between(random, 0.23, 0.3), _between(random, 0.94, 1.03)
    return _top(random, _between(random, 0.75, 0.95), width, hem, seams, tail=_between(random, -0.09, 0))


def sandal(random: np.random.Generator) -> Cut:
    """A thin sole, a heel of any height, and straps."""
    heel = _between(random, 0.0, 0.3)
    back = 0.78 - heel
    sole = _free(random, [(0.0, 0.8), (0.35, 0.78), (0.95, back), (1.0, back + 0.08), (0.4, 0.88), (0.0, 0.88)])
    parts = [[sole], [_free(random, [(0.9, back), (1.0, back), (0.98, 0.88), (0.92, 0.88)])]]
    for x in [0.08, 0.3, 0.55][: 2 + int(random.integers(0, 2))]:
        lean, wide, top = _between(random, -0.1, 0.2), _between(random, 0.05, 0.1), _between(random, 0.35, 0.6)
        parts.append([_free(random, [(x, 0.8), (x + lean, top), (x + lean + wide, top), (x + wide, 0.8)])])
    parts.append([_free(random, [(0.6, 0.38), (0.98, back - 0.15), (0.98, back - 0.08), (0.6, 0.45)])])
    return Cut(parts, [])


def shirt(random: np.random.Generator) -> Cut:
    """Collar and buttons, often rounded tails; sleeves of any length."""
    sleeve = _between(random, 0.75, 1) if random.random() < 0.6 else _between(random, 0, 0.3)
    seams: list[Points] = [[(0.5, 0.12), (0.5, 0.95)]] if random.random() < 0.8 else []
    if random.random() < 0.7:
        seams.append([(0.4, 0.03), (0.5, 0.16), (0.6, 0.03)])
    width, hem = _between(random, 0.18, 0.24), _between(random, 0.86, 0.95)
    return _top(random, sleeve, width, hem, seams, tail=_between(random, 0, 0.09))


def sneaker(random: np.random.Generator) -> Cut:
    """A low shoe with a sole and laces."""
    top = _between(random, 0.36, 0.46)
    points = [(0.0, 0.68), (0.2, 0.6), (0.45, top + 0.05), (0.62, top), (0.7, top + 0.08), (0.95, top - 0.02)]
    outline = _free(random, [*points, (1.0, 0.6), (1.0, 0.8), (0.02, 0.82)])
    seams = [_free(random, [(0.0, 0.73), (1.0, 0.72)]), _free(random, [(0.35, 0.5), (0.5, 0.68)])]
    return Cut([[outline]], seams)


def bag(random: np.random.Generator) -> Cut:
    """A body with a handle."""
    top, inset = _between(random, 0.35, 0.5), _between(random, 0.0, 0.12)
    body = _mirrored(random, [(0.05 + inset, top), (0.05, 0.92)])
    rise, wide = _between(random, 0.05, top - 0.1), _between(random, 0.2, 0.36)
    outer = _mirrored(random, [(0.5 - wide * 0.7, rise), (0.5 - wide, top + 0.05)])
    inner = _mirrored(random, [(0.55 - wide * 0.7, rise + 0.07), (0.56 - wide, top + 0.05)])
    return Cut([[body], [outer, inner]], [_free(random, [(0.08, top + 0.15), (0.92, top + 0.15)])])


def ankle_boot(random: np.random.Generator) -> Cut:
    """A shoe with a shaft and perhaps a heel."""
    top, heel = _between(random, 0.02, 0.25), _between(random, 0.0, 0.12)
    shaft = [(0.0, 0.75), (0.25, 0.6), (0.5, 0.48), (0.52, top), (0.94, top - 0.02)]
    outline = _free(random, [*shaft, (0.98, 0.94), (0.8, 0.94), (0.75, 0.94 - heel), (0.35, 0.94), (0.02, 0.93)])
    return Cut([[outline]], [_free(random, [(0.02, 0.85), (0.97, 0.84)])])


CUTS: tuple[Callable[[np.random.Generator], Cut], ...] = (
    t_shirt,
    trouser,
    pullover,
    dress,
    coat,
    sandal,
    shirt,
    sneaker,
    bag,
    ankle_boot,
)  # in the order of Fashion-MNIST's labels
