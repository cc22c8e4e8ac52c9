"""Stand-ins have the original's shapes, and the seed decides them."""

import numpy as np
import pytest

from whichdevice.models.datasets.base import dataset_names, get_dataset


@pytest.mark.parametrize("name", dataset_names())
def test_the_seed_decides_a_standin_of_the_originals_shapes(name: str) -> None:
    recipe = get_dataset(name)
    first, again, other = (recipe.standin(seed) for seed in (1, 1, 2))
    assert {key: (array.shape, str(array.dtype)) for key, array in first.items()} == {
        key: (array.shape, array.dtype) for key, array in recipe.arrays.items()
    }
    assert all(np.array_equal(first[key], again[key]) for key in first)
    assert not all(np.array_equal(first[key], other[key]) for key in first)
