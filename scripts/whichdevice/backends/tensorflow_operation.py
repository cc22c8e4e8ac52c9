"""A single operation in TensorFlow: dependent steps in a loop on the device, one such chain on each replica."""

from typing import Any

import numpy as np

from whichdevice.backends.tensorflow_devices import place
from whichdevice.workloads.base import OperationWorkload


class TensorFlowOperation:
    """The chain of steps; operands are kept in the format `dtype`."""

    def __init__(
        self, tf: Any, strategy: Any, workload: OperationWorkload, random: np.random.Generator, dtype: str
    ) -> None:
        start, operands = workload.operands(random)
        number = tf.as_dtype(dtype).as_numpy_dtype
        initial = place(tf, strategy, {"state": np.asarray(start, number)})["state"]
        placed = place(tf, strategy, {name: np.asarray(array, number) for name, array in operands.items()})

        def chain(count: Any) -> Any:
            first = (0, tf.convert_to_tensor(initial))
            last = tf.while_loop(lambda step, _: step < count, lambda s, v: (s + 1, workload.step(v, placed)), first)
            return tf.cast(last[1][0, 0], "float32")

        self._chains = tf.function(lambda count: strategy.run(chain, (count,)), autograph=False)
        self._tf, self._strategy = tf, strategy
        self.ends: list[float] = []

    def run(self, steps: int) -> None:
        """Run from the initial state and wait: one number of the result, read back, needs all of it.

        Each call starts anew, as rounding to 16 bits lets the chain grow over hundreds of thousands of steps.
        """
        ends = self._strategy.experimental_local_results(self._chains(self._tf.constant(steps)))
        self.ends = [float(end) for end in ends]
        if not np.isfinite(self.ends).all():
            raise FloatingPointError("the chain of products is no longer finite")
