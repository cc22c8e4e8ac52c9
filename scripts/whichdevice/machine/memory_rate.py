"""Bytes that this machine's processors read from memory in a second: what limits one word of a language model here."""

import time
from concurrent.futures import ThreadPoolExecutor

from whichdevice.machine.cpu import usable_cores

MEBIBYTE = 2**20
MAX_THREADS = 16
PART_MIB, TOTAL_MIB = 32, 512  # of a thread at least, and of all together: more than any cache holds
TRIES = 5


def read_rate() -> float:
    """Return bytes a second of all usable cores that read large arrays once, the fastest of five times."""
    import numpy as np  # here, so that the light parts of this package stay light

    threads = min(usable_cores(), MAX_THREADS)
    numbers = max(PART_MIB, TOTAL_MIB // threads) * MEBIBYTE // 4
    parts = [np.ones(numbers, np.float32) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:

        def once() -> float:
            start = time.perf_counter()
            list(pool.map(lambda part: float(part @ part), parts))  # reads each number once; NumPy lets others work
            return time.perf_counter() - start

        return 4.0 * numbers * threads / min(once() for _ in range(TRIES))
