"""Fashion-MNIST: 70,000 garments of 28×28 grey values. Sizes and sha256 as in TensorFlow Datasets."""

from pathlib import Path

from whichdevice.datasets.base import Archive, Arrays, Recipe
from whichdevice.datasets.idx_images import ARRAYS, COUNTED, TFDS_NOTE, read_files
from whichdevice.datasets.standin.garments import draw_garments
from whichdevice.datasets.tfds_source import read_images

URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
ARCHIVES = (
    Archive(
        "train-images-idx3-ubyte.gz",
        URL + "train-images-idx3-ubyte.gz",
        26421880,
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    ),
    Archive(
        "train-labels-idx1-ubyte.gz",
        URL + "train-labels-idx1-ubyte.gz",
        29515,
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    ),
    Archive(
        "t10k-images-idx3-ubyte.gz",
        URL + "t10k-images-idx3-ubyte.gz",
        4422102,
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    ),
    Archive(
        "t10k-labels-idx1-ubyte.gz",
        URL + "t10k-labels-idx1-ubyte.gz",
        5148,
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
)


def from_files(folder: Path) -> Arrays:
    """Read the four IDX files, packed or not."""
    return read_files(folder, ARCHIVES)


def from_tfds(root: Path) -> Arrays:
    """Download and read with TensorFlow Datasets."""
    return read_images("fashion_mnist", root)


RECIPE = Recipe(
    name="fashion_mnist",
    description="70,000 garments from a shop's catalogue, 28×28 grey values, ten classes",
    citation="Xiao, H., Rasul, K., Vollgraf, R.: Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine "
    "Learning Algorithms. 2017. arXiv:1708.07747",
    licence="MIT, Zalando SE",
    archives=ARCHIVES,
    arrays=ARRAYS,
    counted=COUNTED,
    from_files=from_files,
    from_tfds=from_tfds,
    standin=draw_garments,
    tfds_name="fashion_mnist",
    tfds_note=TFDS_NOTE,
    standin_note="drawn garments with texture and jitter, generated from the seed; same shapes and sizes as "
    "Fashion-MNIST, other images",
    class_names=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
)
