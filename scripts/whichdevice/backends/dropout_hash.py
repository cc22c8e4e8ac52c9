"""Random bits for masks of dropout on CPUs: a hash of each element's number and of words that a step draws.

A program that XLA compiles computes them where a mask is needed, in the loop that masks, where a generator's bits would
be written to memory first and read again. The hash is `triple32` (C. Wellons, "Prospecting for hash functions", 2018),
with a word of the step's own before each of its rounds.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

ROUNDS = ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB))  # shift, factor
LAST_SHIFT = 14
WORDS = len(ROUNDS)  # that a step draws, uint32
UPPER = 16  # bits of 32: an element's own


def hashed(numbers: Any, words: Sequence[Any], shifted: Callable[[Any, int], Any]) -> Any:
    """16 random bits for each of the numbers, uint32, in uint32; `shifted(x, n)` is x >> n in their framework."""
    for (shift, factor), word in zip(ROUNDS, words, strict=True):
        numbers = numbers ^ word
        numbers = (numbers ^ shifted(numbers, shift)) * np.uint32(factor)
    return shifted(numbers ^ shifted(numbers, LAST_SHIFT), UPPER)
