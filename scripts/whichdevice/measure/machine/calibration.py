"""Time fixed float32 products in short bursts, to see how fast this machine is right now; and how it reads its memory.

The same fixed work runs on each core, all at once. Each core works for itself: a product that the cores shared ran 40 %
slower for seconds on a virtual machine whose single cores were as fast as ever, and the runs after it were not slower
by anything near that. The fastest product of a burst does not see short interruptions; the fastest burst does not see a
slow mode that passes within seconds, as neighbours on a shared host cause. What stays is a changed clock, heat and
lasting company.
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from whichdevice.base.cpu import threads_by_turn, usable_cores, usable_processors

KERNEL = "a product on each core"  # as records and `compare` name it; records without a name shared one product
SIZE, COUNT = 64, 128  # 0.07 GFLOP, about a millisecond; OpenBLAS shares out products of more than 64³ only
MAX_CORES = 32  # that work at once: more threads would wait for Python's lock, not for their core
BURSTS = 4
BURST_SECONDS = 0.015
BARRIER_SECONDS = 10.0  # until all threads have started; BrokenBarrierError after that
GAP_SECONDS = 0.03
MORE_BURSTS = 8  # while the question is open, each after a longer gap
MORE_GAP_SECONDS = 0.1
SETTLED = 0.05  # a second burst this near to the fastest one confirms it


@dataclass
class Calibration:
    """Seconds of the fixed work on the slowest core in each burst, in order."""

    bursts: list[float] = field(default_factory=list)

    @property
    def fastest(self) -> float:
        """Seconds in the fastest burst."""
        return min(self.bursts)

    @property
    def settled(self) -> bool:
        """Whether two bursts or more agree on how fast the machine is."""
        return sorted(self.bursts)[1] <= self.fastest * (1 + SETTLED)

    def change(self, before: "Calibration") -> float:
        """Time of the fixed work now against before: runs use all cores, and wait for the slowest."""
        return self.fastest / before.fastest


def calibrate(answered: Callable[[Calibration], bool] = lambda calibration: calibration.settled) -> Calibration:
    """Four bursts over a quarter of a second, and more for up to a second while `answered` says no."""
    products = _Products()
    calibration = Calibration()
    for number in range(BURSTS):
        time.sleep(GAP_SECONDS if number else 0)
        calibration.bursts.append(products.burst())
    for _ in range(MORE_BURSTS):
        if answered(calibration):
            break
        time.sleep(MORE_GAP_SECONDS)
        calibration.bursts.append(products.burst())
    return calibration


MEBIBYTE = 2**20
MAX_THREADS = 16
PART_MIB, TOTAL_MIB = 32, 512  # that a thread reads at least, and all together: more than any cache holds
TRIES = 5


def host_flops() -> float:
    """Floating-point operations a second of float32 products on all usable cores, by the fixed work on each."""
    cores = _cores_alike(threads_by_turn(sorted(usable_processors())), usable_cores())
    return cores * 2.0 * COUNT * SIZE**3 / calibrate().fastest


def read_rate(mebibytes: int = TOTAL_MIB) -> float:
    """Return bytes a second of all usable cores that read large arrays once, the fastest of five times."""
    import numpy as np  # here, so that the light parts of this package stay light

    threads = min(usable_cores(), MAX_THREADS)
    numbers = max(PART_MIB, mebibytes // threads) * MEBIBYTE // 4
    parts = [np.ones(numbers, np.float32) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:

        def once() -> float:
            start = time.perf_counter()
            list(pool.map(lambda part: float(part @ part), parts))  # reads each number once; NumPy lets others work
            return time.perf_counter() - start

        return 4.0 * numbers * threads / min(once() for _ in range(TRIES))


class _Products:
    def __init__(self) -> None:
        import numpy as np  # here, so that the light parts of this package stay light

        self._multiply = np.matmul
        self._small = np.random.default_rng(0).random((SIZE, SIZE), dtype=np.float32)
        self._left = np.broadcast_to(self._small, (COUNT, SIZE, SIZE))
        self._cores = _places(threads_by_turn(sorted(usable_processors())), min(MAX_CORES, usable_cores()))
        self._products = [np.zeros((COUNT, SIZE, SIZE), np.float32) for _ in self._cores]
        self._time(0)

    def burst(self) -> float:
        """Seconds of the fixed work on the slowest core, the fastest of each."""
        start = threading.Barrier(len(self._cores), timeout=BARRIER_SECONDS)

        def work(place: int) -> float:
            if hasattr(os, "sched_setaffinity"):
                with suppress(OSError):  # a core taken from us meanwhile, or a sandbox: it works unpinned
                    os.sched_setaffinity(0, {self._cores[place]})  # of this thread
            start.wait()
            return self._fastest(place, time.perf_counter() + BURST_SECONDS)

        with ThreadPoolExecutor(len(self._cores)) as threads:
            return max(threads.map(work, range(len(self._cores))))

    def _fastest(self, place: int, end: float) -> float:
        """Return the shortest product before `end`; later ones do not count, when other cores may have been at rest."""
        best = first = self._time(place)
        while True:
            seconds = self._time(place)
            if time.perf_counter() > end:
                return best
            best = seconds if best is first else min(best, seconds)

    def _time(self, place: int) -> float:
        start = time.perf_counter()
        self._multiply(self._left, self._small, out=self._products[place])
        return time.perf_counter() - start


def _cores_alike(turns: list[list[int]], usable: int) -> int:
    """How many usable cores are as fast as those that worked, all at once: of a core that two threads share, one."""
    return usable if min(MAX_CORES, usable) > len(turns[0]) else min(usable, len(turns[0]))


def _places(turns: list[list[int]], most: int) -> list[int]:
    """Return at most that many logical processors, evenly spread, no two of one core while others have none."""
    places: list[int] = []
    for processors in turns:
        places += _spread(processors, most - len(places))
    return places


def _spread(cores: list[int], most: int) -> list[int]:
    """Return at most that many of them, evenly."""
    count = min(most, len(cores))
    return [cores[place * len(cores) // count] for place in range(count)]
