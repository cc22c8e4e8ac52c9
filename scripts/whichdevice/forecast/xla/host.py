"""How long this machine takes to send a compiled step off: the floor under a step of JAX or Keras on any device.

    host_time(arrays=300, keras=True)     # seconds, without the launches of kernels

A call of a compiled step hands its arrays over; Keras' `fit` makes a batch, counts and keeps the state around it. With
tiny arrays the CPU computes next to nothing, so that a step takes what sending it off takes.
"""

import time
from collections.abc import Callable
from functools import cache

import numpy as np

ARRAYS = 64  # of the call that is measured
STEPS, REPEATS = 20, 5
FIT_STEPS, FIT_ARRAYS = 64, 12  # of a layer: two weights, an optimiser's two moments of each, and counters


def host_time(arrays: int, keras: bool) -> float:
    """Seconds in which a machine like this one hands a step of so many arrays over, from Keras' `fit` or a plain call.

    Takes a second or two, once in a process.
    """
    return arrays * _of_array() + (_of_fit() if keras else 0.0)


@cache
def _of_array() -> float:
    """Seconds for each array of a call whose result takes its arguments' memory."""
    import jax
    from jax import numpy as jnp

    step = jax.jit(lambda state: [each + 1 for each in state], donate_argnums=(0,))
    state = [jnp.zeros(()) for _ in range(ARRAYS)]

    def run() -> None:
        nonlocal state
        for _ in range(STEPS):
            state = step(state)
        jax.block_until_ready(state)

    return _fastest(run) / (STEPS * ARRAYS)


@cache
def _of_fit() -> float:
    """Seconds that `fit` adds to a step's call."""
    import keras

    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    keras.config.set_dtype_policy(policy)
    inputs = np.zeros((FIT_STEPS, 1), "float32")
    seconds = _fastest(lambda: model.fit(inputs, inputs, batch_size=1, shuffle=False, verbose=0))
    return max(0.0, seconds / FIT_STEPS - FIT_ARRAYS * _of_array())


def _fastest(run: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs; the first one compiles."""
    times = []
    for _ in range(1 + REPEATS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times[1:])
