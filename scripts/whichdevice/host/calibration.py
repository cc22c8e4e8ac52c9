"""How fast this machine multiplies right now: fixed float32 products in short bursts that lie apart.

Fixed work on all cores, and on one. The fastest product of a burst does not see short interruptions; the fastest burst
does not see a slow mode that passes within seconds, as neighbours on a shared host bring about. What stays is a changed
clock, heat and lasting company.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

PRODUCT_SIZE = 512  # 0.27 GFLOP: milliseconds on any core, and enough for BLAS to take every core
ONE_CORE_SIZE, ONE_CORE_COUNT = 96, 64  # too small for BLAS to share out
BURSTS = 4
BURST_SECONDS = 0.03
GAP_SECONDS = 0.03
MORE_BURSTS = 20  # while the question is open, each after a longer gap
MORE_GAP_SECONDS = 0.1
SETTLED = 0.05  # a second burst this near to the fastest one confirms it


@dataclass
class Calibration:
    """Seconds of the fastest product of each burst, in order."""

    all_cores: list[float] = field(default_factory=list)
    one_core: list[float] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """Whether two bursts or more agree on how fast the machine is."""
        return sorted(self.all_cores)[1] <= min(self.all_cores) * (1 + SETTLED)

    def change(self, before: "Calibration") -> float:
        """Time of the fixed work on all cores now against before: runs use them all, and wait for the slowest."""
        return min(self.all_cores) / min(before.all_cores)

    def change_on_one_core(self, before: "Calibration") -> float:
        """The same on one core, which tells a changed clock from shared cores; not judged."""
        return min(self.one_core) / min(before.one_core)


def calibrate(answered: Callable[[Calibration], bool] = lambda found: found.settled) -> Calibration:
    """Four bursts over a quarter of a second, and more for up to three seconds while `answered` says no."""
    products = _Products()
    found = Calibration()
    for number in range(BURSTS):
        time.sleep(GAP_SECONDS if number else 0)
        products.burst(found)
    for _ in range(MORE_BURSTS):
        if answered(found):
            break
        time.sleep(MORE_GAP_SECONDS)
        products.burst(found)
    return found


def product_seconds() -> float:
    """Seconds of one product of `PRODUCT_SIZE` on all cores."""
    return min(calibrate().all_cores)


class _Products:
    def __init__(self) -> None:
        import numpy as np  # here, so that the light parts of this package stay light

        self._multiply = np.matmul
        left = np.random.default_rng(0).random((PRODUCT_SIZE, PRODUCT_SIZE), dtype=np.float32)
        self._large = (left, left.T.copy(), np.empty_like(left))
        small = np.ascontiguousarray(left[:ONE_CORE_SIZE, :ONE_CORE_SIZE])
        shape = (ONE_CORE_COUNT, ONE_CORE_SIZE, ONE_CORE_SIZE)
        self._small = (np.broadcast_to(small, shape), small, np.empty(shape, np.float32))
        for operands in (self._large, self._small):  # starts BLAS's threads
            self._time(operands)

    def burst(self, found: Calibration) -> None:
        found.all_cores.append(self._fastest(self._large))
        found.one_core.append(self._fastest(self._small))

    def _fastest(self, operands: Any) -> float:
        best, end = self._time(operands), time.perf_counter() + BURST_SECONDS / 2
        while time.perf_counter() < end:
            best = min(best, self._time(operands))
        return best

    def _time(self, operands: Any) -> float:
        left, right, product = operands
        start = time.perf_counter()
        self._multiply(left, right, out=product)
        return time.perf_counter() - start
