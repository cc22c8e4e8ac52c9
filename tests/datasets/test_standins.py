"""Stand-ins have the original's shapes, and the seed decides them."""

import numpy as np
import pytest

from whichdevice.models.datasets.base import dataset_names, get_dataset

SLOW = "fashion_mnist"  # a recipe as mnist has one
NAMES = [pytest.param(name, marks=pytest.mark.slow if name == SLOW else ()) for name in dataset_names()]


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides_a_standin_of_the_originals_shapes(name: str) -> None:
    recipe = get_dataset(name)
    first, again, other = (recipe.standin(seed) for seed in (1, 1, 2))
    assert {key: (array.shape, str(array.dtype)) for key, array in first.items()} == {
        key: (array.shape, array.dtype) for key, array in recipe.arrays.items()
    }
    assert all(np.array_equal(first[key], again[key]) for key in first)
    assert not all(np.array_equal(first[key], other[key]) for key in first)
