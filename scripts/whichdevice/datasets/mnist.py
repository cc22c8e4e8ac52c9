"""MNIST: 70,000 handwritten digits of 28×28 grey values.

Sizes and sha256 are those of the CVDF mirror that TensorFlow Datasets uses; the md5 of the unpacked content hold for
every faithful copy, however it was packed.
"""

from pathlib import Path

from whichdevice.datasets.base import Archive, Arrays, Recipe
from whichdevice.datasets.idx_images import ARRAYS, COUNTED, TFDS_NOTE, read_files
from whichdevice.datasets.standin.digits import draw_digits
from whichdevice.datasets.tfds_source import read_images

URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"
ARCHIVES = (
    Archive(
        "train-images-idx3-ubyte.gz",
        URL + "train-images-idx3-ubyte.gz",
        9912422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "6bbc9ace898e44ae57da46a324031adb",
    ),
    Archive(
        "train-labels-idx1-ubyte.gz",
        URL + "train-labels-idx1-ubyte.gz",
        28881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "a25bea736e30d166cdddb491f175f624",
    ),
    Archive(
        "t10k-images-idx3-ubyte.gz",
        URL + "t10k-images-idx3-ubyte.gz",
        1648877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "2646ac647ad5339dbf082846283269ea",
    ),
    Archive(
        "t10k-labels-idx1-ubyte.gz",
        URL + "t10k-labels-idx1-ubyte.gz",
        4542,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "27ae3e4e09519cfbb04c329615203637",
    ),
)


def from_files(folder: Path) -> Arrays:
    """Read the four IDX files, packed or not."""
    return read_files(folder, ARCHIVES)


def from_tfds(root: Path) -> Arrays:
    """Download and read with TensorFlow Datasets."""
    return read_images("mnist", root)


RECIPE = Recipe(
    name="mnist",
    description="70,000 handwritten digits, 28×28 grey values, ten classes",
    citation="LeCun, Y., Cortes, C., Burges, C. J.: MNIST handwritten digit database. 2010. "
    "http://yann.lecun.com/exdb/mnist",
    licence="CC BY-SA 3.0",
    archives=ARCHIVES,
    arrays=ARRAYS,
    counted=COUNTED,
    from_files=from_files,
    from_tfds=from_tfds,
    standin=draw_digits,
    tfds_name="mnist",
    tfds_note=TFDS_NOTE,
    standin_note="drawn digits with jitter, generated from the seed; same shapes and sizes as MNIST, other images",
    class_names=tuple("0123456789"),
)
