"""Datasets are found by file name."""

from pathlib import Path

from whichdevice.models.datasets.base import get_dataset


def test_checksums_are_those_of_tensorflow_datasets() -> None:
    import importlib.util

    root = Path(importlib.util.find_spec("tensorflow_datasets").origin).parent  # type: ignore[union-attr, arg-type]
    lists = ["url_checksums/mnist.txt", "url_checksums/fashion_mnist.txt", "datasets/tiny_shakespeare/checksums.tsv"]
    known = {
        tuple(line.split("\t")[:3]) for each in lists for line in (root / each).read_text("utf-8").splitlines() if line
    }
    ours = {
        (archive.url, str(archive.size), archive.sha256)
        for name in ("mnist", "fashion_mnist", "tiny_shakespeare")
        for archive in get_dataset(name).archives
    }
    assert ours == known
