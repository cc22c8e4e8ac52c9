"""The largest batch that fits, by a line between two needs."""

import pytest

from whichdevice.forecast.memory import largest_batch, too_large

GIBI = 2**30


def test_what_does_not_fit_is_told_with_both_sizes():
    said = too_large(20 * GIBI, 7.48 * GIBI)
    assert said == "needs 20.00 GiB of HBM on each device, 7.48 GiB are available: 12.52 GiB too much"


@pytest.mark.parametrize("batch", [1, 100, 1024, 65536])
def test_a_linear_need_has_its_largest_batch_from_any_size(batch):
    assert largest_batch(lambda size: GIBI + 2**20 * size, batch, 8 * GIBI) == pytest.approx(7 * 1024, abs=1)


def test_a_need_that_bends_upwards_stays_on_the_safe_side():
    def need(size: int) -> float:
        return GIBI + 2**19 * size * (1 + 2e-5 * size)

    found = largest_batch(need, 1024, 8 * GIBI)
    assert need(found) <= 8 * GIBI < need(round(found * 1.2))


def test_where_not_even_one_example_fits_there_is_none():
    assert largest_batch(lambda size: 9 * GIBI + size, 64, 8 * GIBI) == 0
