"""The order in which training reads its examples, and what becomes of those that fill no batch."""

from abc import ABC, abstractmethod

import numpy as np


class BatchOrder(ABC):
    """An endless, seeded sequence of batches of example numbers."""

    def __init__(self, examples: int, batch_size: int, seed: int) -> None:
        self.examples = examples
        self.batch_size = batch_size
        self.random = np.random.default_rng(seed)

    @abstractmethod
    def take(self, steps: int) -> np.ndarray:
        """The next batches, int32 [steps, batch_size]."""


class Permutations(BatchOrder):
    """Every example once an epoch in a fresh order; the tail that fills no batch is dropped."""

    def __init__(self, examples: int, batch_size: int, seed: int) -> None:
        super().__init__(examples, batch_size, seed)
        self._left = np.empty((0, batch_size), np.int32)

    def take(self, steps: int) -> np.ndarray:
        """The next batches, int32 [steps, batch_size], running on into the next epoch."""
        whole = self.examples // self.batch_size * self.batch_size
        parts = [self._left]
        while sum(len(part) for part in parts) < steps:
            epoch = self.random.permutation(self.examples)[:whole]
            parts.append(epoch.astype(np.int32).reshape(-1, self.batch_size))
        rows = np.concatenate(parts)
        self._left = rows[steps:]
        return rows[:steps]


class RandomDraws(BatchOrder):
    """Independent draws with replacement, as the recurrent recipes start their windows."""

    def take(self, steps: int) -> np.ndarray:
        """The next batches, int32 [steps, batch_size]."""
        return self.random.integers(0, self.examples, (steps, self.batch_size), dtype=np.int32)
