"""How numbers, times, sizes and prices are written."""

from collections.abc import Callable

import pytest

from whichdevice.base import numbers
from whichdevice.decide.words import count_words

CASES = [
    (numbers.number, {0: "0", 0.012345: "0.0123", 53.14: "53.1", 43950.4: "43,950", 3e-8: "3e-08", 1e-6: "0.000001"}),
    (numbers.percent, {0.1234: "12.3 %", 1: "100 %"}),
    (numbers.quality, {0.98712: "0.9871", 12.5: "12.5"}),
    (numbers.seconds, {2.5e-5: "25 µs", 1.234e-3: "1.23 ms", 45.6: "45.6 s", 600: "10 min", 3e5: "3.47 days"}),
    (numbers.duration, {40.4: "40 s", 180: "3 min", 4800: "1 h 20 min"}),
    (numbers.size, {2048: "2 KiB", 3 * 2**20: "3 MiB", 15.6 * 2**30: "15.6 GiB"}),
    (numbers.price, {0.0123: "0.0123", 0.354: "0.35", 98.32: "98.32", 354.4: "354.40", 1234.5: "1,234"}),
    (numbers.time_words, {0.00021: "210 µs", 0.02: "20 ms", 20: "20 s", 1500: "25 min", 5400: "1.5 h",
                          47.2 * 3600: "47 h", 11 * 86400: "11 days", 9e9: "years"}),
    (numbers.usd_words, {0: "0", 0.001: "<0.01", 0.354: "0.35", 1234.5: "1,230"}),
    (count_words, {60_000: "60,000", 1.5e6: "1.5 million", 1.1e9: "1.1 billion", 1_281_167: "1,281,167",
                   1_000_001: "1,000,001", 0.5: "0"}),
]  # fmt: skip


@pytest.mark.parametrize(("write", "texts"), CASES)
def test_a_number_is_written_for_people(write: Callable[[float], str], texts: dict[float, str]) -> None:
    assert {value: write(value) for value in texts} == texts


def test_things_are_counted() -> None:
    assert [numbers.counted(*each) for each in ((1, "device"), (10, "device"), (2, "process"))] == [
        "1 device", "10 devices", "2 processes",
    ]  # fmt: skip
