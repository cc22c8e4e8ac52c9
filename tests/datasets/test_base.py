"""Datasets are found by file name."""

from pathlib import Path

import pytest

from whichdevice.datasets.base import dataset_names, get_dataset


@pytest.mark.parametrize("name", dataset_names())
def test_a_recipe_is_complete(name: str) -> None:
    recipe = get_dataset(name)
    assert recipe.name == name
    assert recipe.citation and recipe.licence and recipe.description
    assert recipe.archives and all(archive.url.endswith(archive.name) for archive in recipe.archives)
    assert set(recipe.counted.values()) <= set(recipe.arrays)


@pytest.mark.parametrize(
    ("name", "megabytes"), [("mnist", 55), ("fashion_mnist", 55), ("tiny_shakespeare", 1.1), ("weather_denmark", 29)]
)
def test_the_prepared_size_is_known_beforehand(name: str, megabytes: float) -> None:
    assert get_dataset(name).nbytes / 1e6 == pytest.approx(megabytes, rel=0.02)


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
