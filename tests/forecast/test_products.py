"""Operations of convolutions, counted against a count of every single multiplication."""

import itertools

import pytest

from whichdevice.forecast.products import Window, _places


def counted(size: int, out: int, window: Window) -> int:
    """Every pair of output and kernel element that meets a true input element."""
    met = 0
    for place, element in itertools.product(range(out), range(window.size)):
        position = place * window.stride + element * window.spread - window.low
        met += position % window.dilate == 0 and 0 <= position // window.dilate < size
    return met


@pytest.mark.parametrize("size", [1, 2, 7, 10])
@pytest.mark.parametrize("out", [1, 5, 12])
@pytest.mark.parametrize("kernel", [1, 3, 8])
def test_places_are_counted_as_one_by_one(size, out, kernel):
    for stride, low, dilate, spread in itertools.product((1, 2, 3), (-1, 0, 2), (1, 2, 4), (1, 3)):
        window = Window(kernel, stride, low, dilate, spread)
        assert _places(size, out, window) == counted(size, out, window), window
