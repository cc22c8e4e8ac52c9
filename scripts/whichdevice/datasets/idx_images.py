"""What MNIST and Fashion-MNIST share: four IDX files that become four arrays."""

from pathlib import Path

from whichdevice.datasets.archives import require
from whichdevice.datasets.base import Archive, Array, Arrays
from whichdevice.datasets.idx import read_idx

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
