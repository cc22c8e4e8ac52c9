"""Matrix products chained on the device: state ← state · B on N × N, N being the batch size.

B is orthogonal up to rounding (a cosine transform with random signs and order), so that the chain stays within bounds
for a timed window. Some devices run faster on zeros: it has none. 2·N³ operations per product.
"""

from typing import Any

import numpy as np

from whichdevice.models.workloads.base import Arrays, OperationWorkload, Recipe


class Matmul(OperationWorkload):
    """C = A · B, one product a step."""

    recipe = Recipe(source='neomatrix369, "How to harness the Powers of the Cloud TPU?", 2018', batch_size=4096)
    unit = "product"

    def operands(self, random: np.random.Generator) -> tuple[np.ndarray, Arrays]:
        """A [N, N] with unit variance and B [N, N] orthogonal, float32."""
        size = self.options.batch_size
        return random.standard_normal((size, size), dtype=np.float32), {"b": orthogonal_matrix(size, random)}

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


def orthogonal_matrix(size: int, random: np.random.Generator) -> np.ndarray:
    """A dense orthogonal matrix float32 [size, size] in size² time: the cosine transform, shuffled and signed."""
    cosines = np.sqrt(2 / size) * np.cos(np.pi * np.arange(4 * size) / (2 * size))
    odd = 2 * random.permutation(size) + 1
    matrix = np.empty((size, size), np.float32)
    for row, frequency in enumerate(random.permutation(size)):
        matrix[row] = cosines[odd * frequency % (4 * size)] if frequency else np.sqrt(1 / size)
    return matrix * random.choice(np.array([-1, 1], np.float32), size)[:, None]
