"""Memory bandwidth: state ← b − state over arrays of batch_size MiB, far larger than any cache should hold.

One addition's worth of work for three numbers moved, as STREAM's Add (McCalpin, 1995). Two steps give the first
state back, up to rounding, so that no number of steps overflows or dies out. Bytes are counted as STREAM does: two
arrays read, one written. What a processor reads besides because it fills a cache line before writing it
(write-allocate, up to a third more) is not counted; where a backend writes in place there is none.
"""

from typing import Any, ClassVar

import numpy as np

from whichdevice.models.workloads.base import Arrays, OperationWorkload, Recipe

MEBIBYTE = 2**20


class MemoryStream(OperationWorkload):
    """One pass over memory a step; batch_size is MiB of each array, in the precision asked for."""

    recipe = Recipe(source="McCalpin, STREAM, 1995; here the array is the step's state", batch_size=512)
    unit = "gigabyte"
    host_copies = 2.0
    bounded: ClassVar[bool] = True

    @property
    def _width(self) -> int:
        return 4 if self.options.precision in ("float32", "tf32") else 2

    @property
    def input_shape(self) -> list[int]:
        """A row is a MiB."""
        return [self.options.batch_size, MEBIBYTE // self._width]

    def operands(self, random: np.random.Generator) -> tuple[np.ndarray, Arrays]:
        """State and b, float32 [batch_size, numbers in a MiB]: one row of random numbers seen batch_size times."""
        rows = random.standard_normal((2, self.input_shape[1]), dtype=np.float32)
        state, b = (np.broadcast_to(row, self.input_shape) for row in rows)
        return state, {"b": b}

    def step(self, state: Any, operands: Arrays) -> Any:
        """One pass; the next one needs its result."""
        from keras import ops

        return ops.subtract(operands["b"], state)

    @property
    def flops_per_step(self) -> float:
        """A subtraction for each number."""
        return float(self.input_shape[0] * self.input_shape[1])

    @property
    def bytes_per_step(self) -> float:
        """Two arrays read and one written."""
        return 3.0 * self.options.batch_size * MEBIBYTE

    @property
    def units_per_step(self) -> float:
        """Gigabytes moved, of 10⁹ bytes."""
        return self.bytes_per_step / 1e9
