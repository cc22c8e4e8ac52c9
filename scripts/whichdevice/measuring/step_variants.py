"""Variants of a training workload that leave out one thing each, so that their times differ by what it costs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from whichdevice.workloads.base import Arrays, Split, TrainingWorkload


class OnOneBatch(TrainingWorkload):
    """The same training on one batch: nothing is chosen or converted. `fit` feeds it from the host all the same."""

    def __init__(self, inner: TrainingWorkload) -> None:
        super().__init__(inner.options)
        self._inner = inner
        self.metric, self.unit = inner.metric, inner.unit  # type: ignore[misc]  # of this instance's workload

    def split(self, train: Split, index: np.ndarray) -> Split:
        """The batch of the examples `index`, int32 [batch], as the only data."""
        from keras import ops

        inputs, target = self._inner.batch(train.arrays, ops.convert_to_tensor(index))
        held = {"inputs": ops.convert_to_numpy(inputs), "target": ops.convert_to_numpy(target)}
        return Split(held, train.examples, train.batch_size)

    def batch(self, arrays: Arrays, index: Any) -> tuple[Any, Any]:
        """The one batch, whatever the index."""
        from keras import ops

        # A tensor even where the backend keeps arrays as variables; nothing is copied.
        return ops.stop_gradient(arrays["inputs"]), ops.stop_gradient(arrays["target"])

    def model(self) -> Any:
        """The workload's."""
        return self._inner.model()

    def loss(self, target: Any, prediction: Any) -> Any:
        """The workload's."""
        return self._inner.loss(target, prediction)

    def optimizer(self) -> Any:
        """The workload's."""
        return self._inner.optimizer()

    def quality(self, target: Any, prediction: Any) -> Any:
        """The workload's."""
        return self._inner.quality(target, prediction)

    def splits(self, arrays: Mapping[str, np.ndarray]) -> tuple[Split, Split]:
        """The workload's."""
        return self._inner.splits(arrays)


class OneWeight(OnOneBatch):
    """A model of one weight and a batch of one number: what is left of a step is the loop around it."""

    def __init__(self, inner: TrainingWorkload) -> None:
        super().__init__(inner)
        self.metric = None  # type: ignore[misc]

    def split(self, train: Split, index: np.ndarray) -> Split:
        """One number."""
        one = np.ones((1, 1), np.float32)
        return Split({"inputs": one, "target": one}, train.examples, train.batch_size)

    def model(self) -> Any:
        """Linear, without a bias."""
        import keras

        return keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])

    def loss(self, target: Any, prediction: Any) -> Any:
        """The prediction's mean."""
        from keras import ops

        return ops.mean(ops.cast(prediction, "float32"))

    def optimizer(self) -> Any:
        """Plain gradient descent, too slow for the weight to run away."""
        import keras

        return keras.optimizers.SGD(1e-9)
