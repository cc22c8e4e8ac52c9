"""How numbers, times, sizes and prices are written."""

import pytest
from beside import beside

from whichdevice.base import numbers
from whichdevice.decide.words import count_words

WRITERS = vars(numbers) | {"count_words": count_words}


@pytest.mark.parametrize(("name", "texts"), beside(__file__).items())
def test_a_number_is_written_for_people(name: str, texts: dict[float, str]) -> None:
    assert {value: WRITERS[name](value) for value in texts} == texts


def test_things_are_counted() -> None:
    assert [numbers.counted(*each) for each in ((1, "device"), (10, "device"), (2, "process"))] == [
        "1 device", "10 devices", "2 processes",
    ]  # fmt: skip
