"""Matrix products chained on the device: state ← state · B on N × N, N being the batch size.

B is random with variance 1/N, so that the chain neither overflows nor dies out; it is never zeros,
on which some devices run faster. 2·N³ operations per product.
"""

from typing import Any

import numpy as np

from whichdevice.workloads.base import Arrays, OperationWorkload, Recipe


class Matmul(OperationWorkload):
    """C = A · B, one product a step."""

    recipe = Recipe(source='neomatrix369, "How to harness the Powers of the Cloud TPU?", 2018', batch_size=4096)
    unit = "product"

    def operands(self, random: np.random.Generator) -> tuple[np.ndarray, Arrays]:
        """A [N, N] with unit variance and B [N, N] with variance 1/N, float32."""
        size = self.options.batch_size
        first = random.standard_normal((size, size), dtype=np.float32)
        second = random.standard_normal((size, size), dtype=np.float32) / np.float32(np.sqrt(size))
        return first, {"b": second}

    def step(self, state: Any, operands: Arrays) -> Any:
        """One product; the next one needs its result."""
        from keras import ops

        return ops.matmul(state, operands["b"])

    @property
    def flops_per_step(self) -> float:
        """2·N³: a multiplication and an addition for each term."""
        return 2.0 * self.options.batch_size**3

    @property
    def bytes_per_step(self) -> float:
        """Two operands and a result of N × N."""
        return 3.0 * self.options.batch_size**2 * (4 if self.options.precision in ("float32", "tf32") else 2)
