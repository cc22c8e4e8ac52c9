"""The same compiled step as a backend's `epoch` loop has, in a bare loop: nothing of the harness around it.

Each takes the backend's loop and gives a function of batches, int [steps, batch], that trains them and waits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np


def bare_tensorflow(loop: Any) -> Callable[[np.ndarray], None]:
    """All steps in one call: a call a step would cost what the project's loop saves, 7 % at batch 64 on two cores."""
    import tensorflow as tf

    batch = loop._workload.options.batch_size  # known to the program, or its kernels are slower

    @tf.function(input_signature=[tf.TensorSpec([None, 1, batch], tf.int32)], autograph=False)
    def steps(rows: Any) -> Any:
        def one(place: Any, sums: Any) -> tuple[Any, Any]:
            return place + 1, sums + loop._one(rows[place])

        return tf.while_loop(lambda place, _: place < tf.shape(rows)[0], one, (0, tf.zeros(2)))[1]

    def train(batches: np.ndarray) -> None:
        steps(tf.constant(batches[:, None])).numpy()

    return train


def bare_jax(loop: Any) -> Callable[[np.ndarray], None]:
    """The compiled program of one step, its state given away at each call."""
    import jax

    step = loop.programs._compiled[1]

    def train(batches: np.ndarray) -> None:
        carry = (loop._state, *loop._copy((np.zeros(2, np.float32), np.int32(0))))
        for start in range(0, len(batches), 32):
            block = np.zeros((32, batches.shape[1]), np.int32)
            part = batches[start : start + 32]
            block[: len(part)] = part
            constants = (loop._arrays, jax.device_put(block, loop._rows))
            for _ in part:
                carry = step(carry, constants)
        loop._state, sums, _ = carry
        np.asarray(sums)

    return train


def bare_torch(loop: Any) -> Callable[[np.ndarray], None]:
    """Eager steps."""
    import torch

    def train(batches: np.ndarray) -> None:
        for index in torch.tensor(batches):
            loop._advance(index)
        float(loop._sums[0])

    return train


BARE_LOOPS = {"tensorflow": bare_tensorflow, "jax": bare_jax, "torch": bare_torch}
