"""MNIST: 70,000 handwritten digits of 28×28 grey values, and drawn digits as its stand-in.

Sizes and sha256 are of the CVDF mirror that TensorFlow Datasets uses; the md5 of the unpacked content holds for every
faithful copy, however it was packed.
"""

import numpy as np

from whichdevice.datasets.base import Arrays
from whichdevice.datasets.images import GRID, bell, distance, drawn, image_recipe, painted, random_warp, smooth

MARGIN = 4.0  # pixels around the digit

# Ways to write each digit: strokes as points in the unit square, y down. "~" strokes are curves, "-" straight lines.
Stroke = tuple[str, list[tuple[float, float]]]
OVAL = [(0.55, 0.02), (0.28, 0.15), (0.2, 0.5), (0.3, 0.87), (0.52, 0.98), (0.75, 0.85), (0.82, 0.48), (0.73, 0.14)]
WAYS: dict[int, list[list[Stroke]]] = {
    0: [[("~", [*OVAL, (0.5, 0.02)])], [("~", [(0.62, 0.06), *OVAL[1:], (0.42, 0.08)])]],
    1: [
        [("-", [(0.52, 0.0), (0.5, 1.0)])],
        [("-", [(0.34, 0.2), (0.55, 0.0), (0.53, 1.0)])],
        [("-", [(0.35, 0.18), (0.54, 0.0), (0.54, 1.0)]), ("-", [(0.34, 1.0), (0.74, 1.0)])],
    ],
    2: [
        [("~", [(0.22, 0.25), (0.38, 0.04), (0.66, 0.06), (0.74, 0.28), (0.56, 0.6), (0.2, 0.98)]),
         ("-", [(0.2, 0.98), (0.82, 0.96)])],
        [("~", [(0.2, 0.2), (0.45, 0.0), (0.74, 0.2), (0.6, 0.6), (0.3, 0.95), (0.2, 0.8), (0.4, 0.78), (0.84, 0.98)])],
    ],
    3: [
        [("~", [(0.24, 0.1), (0.5, 0.0), (0.73, 0.18), (0.6, 0.42), (0.42, 0.46)]),
         ("~", [(0.42, 0.46), (0.7, 0.55), (0.78, 0.78), (0.55, 0.99), (0.2, 0.9)])],
        [("-", [(0.24, 0.03), (0.74, 0.03), (0.46, 0.42)]),
         ("~", [(0.46, 0.42), (0.76, 0.55), (0.74, 0.86), (0.46, 1.0), (0.2, 0.88)])],
    ],
    4: [
        [("-", [(0.3, 0.02), (0.2, 0.55), (0.84, 0.53)]), ("-", [(0.68, 0.08), (0.64, 1.0)])],
        [("-", [(0.64, 0.0), (0.16, 0.64), (0.86, 0.64)]), ("-", [(0.64, 0.0), (0.64, 1.0)])],
    ],
    5: [
        [("-", [(0.76, 0.02), (0.32, 0.02), (0.28, 0.42)]),
         ("~", [(0.28, 0.42), (0.58, 0.38), (0.78, 0.64), (0.6, 0.96), (0.2, 0.92)])],
        [("-", [(0.8, 0.05), (0.36, 0.04)]),
         ("~", [(0.36, 0.04), (0.32, 0.42), (0.64, 0.48), (0.74, 0.76), (0.48, 1.0), (0.18, 0.86)])],
    ],
    6: [
        [("~", [(0.7, 0.03), (0.42, 0.2), (0.25, 0.58), (0.36, 0.94), (0.64, 0.96), (0.76, 0.72), (0.58, 0.52),
                (0.3, 0.64)])],
        [("~", [(0.52, 0.0), (0.3, 0.4), (0.24, 0.76), (0.46, 1.0), (0.72, 0.84), (0.62, 0.6), (0.27, 0.7)])],
    ],
    7: [
        [("-", [(0.2, 0.04), (0.8, 0.04), (0.44, 1.0)])],
        [("-", [(0.2, 0.06), (0.78, 0.04), (0.42, 1.0)]), ("-", [(0.36, 0.5), (0.76, 0.48)])],
        [("~", [(0.22, 0.16), (0.46, 0.06), (0.78, 0.06), (0.6, 0.4), (0.48, 1.0)])],
    ],
    8: [
        [("~", [(0.7, 0.14), (0.48, 0.0), (0.28, 0.17), (0.44, 0.42), (0.72, 0.68), (0.66, 0.95), (0.36, 0.97),
                (0.26, 0.74), (0.5, 0.46), (0.7, 0.14)])],
        [("~", [(0.5, 0.0), (0.3, 0.2), (0.5, 0.44), (0.7, 0.2), (0.5, 0.0)]),
         ("~", [(0.5, 0.44), (0.24, 0.72), (0.5, 1.0), (0.76, 0.72), (0.5, 0.44)])],
    ],
    9: [
        [("~", [(0.72, 0.22), (0.5, 0.02), (0.26, 0.22), (0.38, 0.48), (0.72, 0.3)]),
         ("-", [(0.73, 0.2), (0.66, 1.0)])],
        [("~", [(0.74, 0.16), (0.46, 0.02), (0.24, 0.26), (0.44, 0.5), (0.74, 0.24)]),
         ("~", [(0.74, 0.16), (0.74, 0.6), (0.6, 0.94), (0.3, 0.96)])],
    ],
}  # fmt: skip


def draw_digits(seed: int, counts: dict[str, int] | None = None) -> Arrays:
    """Draw MNIST's four arrays as pen strokes of many hands; `counts` makes fewer images of `train` and `test`.

    Each hand has its own points for each digit; each image then has its own slant, size, place, bend, pen width, ink
    and noise. The test set has other hands than the training set. A few images are really hard.
    """
    return drawn([seed, 28], counts, _write, _draw)


def _write(random: np.random.Generator, hands: int) -> np.ndarray:
    """Distance fields [10, hands, GRID²] of the digits in each hand."""
    fields = np.empty((10, hands, GRID * GRID), np.float32)
    for digit, ways in WAYS.items():
        for hand in range(hands):
            strokes = []
            for kind, points in ways[hand % len(ways)]:
                moved = np.array(points) + 0.07 * bell(random, len(points), 2)
                strokes.append(smooth(moved) if kind == "~" else moved)
            fields[digit, hand] = distance(strokes).reshape(-1)
    return fields


def _draw(random: np.random.Generator, fields: np.ndarray, labels: np.ndarray) -> np.ndarray:
    count, hands = len(labels), fields.shape[1]
    careless = random.random(count) < 0.08
    amount = np.where(careless, 2.3, 1.0)
    warp = random_warp(random, count, amount, turn=0.17, scale=0.28, shear=0.55, shift=0.12)
    shape = labels.astype(np.int64) * hands + random.integers(0, hands, count)
    width = (0.052 + 0.035 * bell(random, count)).astype(np.float32)[:, None]
    ink = np.where(random.random(count) < 0.03, 0.35, 0.9 + 0.1 * bell(random, count)).astype(np.float32)[:, None]
    flat = fields.reshape(10 * hands, -1)

    def grey(part: slice, index: np.ndarray) -> np.ndarray:
        away = flat[shape[part, None], index]
        values = np.clip((width[part] - away) * np.float32(22) + np.float32(0.5), 0, 1) * ink[part]
        speckle = random.random(values.shape, dtype=np.float32)
        uneven = np.where(careless[part, None], np.float32(0.35) + speckle, np.float32(0.9) + speckle * np.float32(0.1))
        return np.minimum(values * uneven, np.float32(1))

    return painted(warp, MARGIN, grey)


RECIPE = image_recipe(
    "mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    sizes=(9912422, 28881, 1648877, 4542),
    sha256=(
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    content_md5=(
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ),
    description="70,000 handwritten digits, 28×28 grey values, ten classes",
    citation="LeCun, Y., Cortes, C., Burges, C. J.: MNIST handwritten digit database. 2010. "
    "http://yann.lecun.com/exdb/mnist",
    licence="CC BY-SA 3.0",
    standin=draw_digits,
    standin_note="drawn digits with jitter, generated from the seed; same shapes and sizes as MNIST, other images",
    class_names=tuple("0123456789"),
)
