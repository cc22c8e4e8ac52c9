"""Variants of a training workload that leave out one thing each, so that their times differ by what it costs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from whichdevice.workloads.base import Arrays, Split, TrainingWorkload
from whichdevice.workloads.shapes import Tree, named, packed

PARTS = ("inputs", "targets", "weights")


class OnOneBatch(TrainingWorkload):
    """The same training on one batch: nothing is chosen or converted. `fit` feeds it from the host all the same."""

    def __init__(self, inner: TrainingWorkload) -> None:
        super().__init__(inner.options)
        self._inner = inner
        self.metric, self.unit = inner.metric, inner.unit  # type: ignore[misc]  # of this instance's workload

    def split(self, train: Split, index: np.ndarray) -> Split:
        """The batch of the examples `index`, int32 [batch], as the only data."""
        from keras import ops

        parts = self._inner.batch(train.arrays, ops.convert_to_tensor(index))
        held = [named(part, name) for name, part in zip(PARTS, parts, strict=False)]
        arrays = {key: ops.convert_to_numpy(leaf) for part in held for key, leaf in part.items()}
        return Split(arrays, train.examples, train.batch_size)

    def batch(self, arrays: Arrays, index: Any) -> tuple[Any, ...]:
        """The one batch, whatever the index."""
        from keras import ops

        # A tensor even where the backend keeps arrays as variables; nothing is copied.
        flat = {key: ops.stop_gradient(array) for key, array in arrays.items()}
        parts = [packed(flat, name) for name in PARTS]
        return tuple(part for place, part in enumerate(parts) if part is not None or place == 0)

    def own_step(self, model: Any) -> bool:
        """The workload's."""
        return self._inner.own_step(model)

    def outputs(self, model: Any) -> Tree:
        """The workload's."""
        return self._inner.outputs(model)

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
        return Split({"inputs": one, "targets": one}, train.examples, train.batch_size)

    def own_step(self, model: Any) -> bool:
        """Of the loop around it alone."""
        return False

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
