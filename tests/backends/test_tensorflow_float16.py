"""float16 with loss scaling, driven on a CPU, which has no such cells: it learns and survives an overflow."""

import numpy as np
import pytest
from backends.tensorflow_behaviour import behaviours

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    return behaviours(tmp_path_factory.mktemp("float16"), "float16")["float16"]


def test_it_learns(found):
    assert np.isfinite(found["losses"]).all()
    assert found["losses"][-1] < 0.7 * found["losses"][0]


def test_an_overflow_halves_the_scale_until_steps_are_taken_again(found):
    first, after_overflow, last = found["scales"]
    assert (first, after_overflow) == (2**15, 2**29)
    assert 2**10 < last < 2**29


def test_a_step_that_overflows_changes_no_weight(found):
    assert found["kept"]


def test_products_are_float16_and_the_last_layer_and_the_weights_are_not(found):
    types = found["types"]
    assert (types["storage"], types["product"], types["sum"]) == ("float32", "float16", "float32")
    assert found["dtypes"] == ["float16", "float32"]
