"""A workload that compiles in a second: one hidden layer on 64 numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from whichdevice.workloads.base import Arrays, Recipe, Split, TrainingWorkload


class Tiny(TrainingWorkload):
    """64 numbers in, one out."""

    recipe = Recipe(source="none", batch_size=64)
    dataset = "tiny"
    metric = None

    def model(self) -> Any:
        """Two products."""
        import keras

        return keras.Sequential([keras.Input((64,)), keras.layers.Dense(512, activation="relu"), keras.layers.Dense(1)])

    def optimizer(self) -> Any:
        """Plain descent."""
        import keras

        return keras.optimizers.SGD()

    def splits(self, arrays: Mapping[str, np.ndarray]) -> tuple[Split, Split]:
        """All of it, twice."""
        split = Split(dict(arrays), len(arrays["x"]))
        return split, split

    def batch(self, arrays: Arrays, index: Any) -> tuple[Any, Any]:
        """Rows and their first numbers."""
        from keras import ops

        rows = ops.take(arrays["x"], index, axis=0)
        return rows, rows[:, :1]

    def loss(self, target: Any, prediction: Any) -> Any:
        """Mean square."""
        from keras import ops

        return ops.mean(ops.square(target - prediction))
