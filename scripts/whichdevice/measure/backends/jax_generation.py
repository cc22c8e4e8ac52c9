"""Generate tokens with a Keras model on JAX: the prompt in one program, then one token after the other in another.

Both programs are what a device runs and what a forecast counts. The cache of keys and values has a
fixed length, and a decoding step overwrites the one that it is given.
"""

from typing import Any

import numpy as np

from whichdevice.measure.backends.base import Generator
from whichdevice.models.steps.generation import generation_programs
from whichdevice.models.workloads.base import TrainingWorkload, prompt_length


class JaxGenerator(Generator):
    """Generates on one device, or on several that share the batch."""

    def __init__(self, jax: Any, mesh: Any, workload: TrainingWorkload, model: Any, tokens: np.ndarray) -> None:
        spec = jax.sharding.PartitionSpec
        whole, rows = (jax.sharding.NamedSharding(mesh, spec(*axes)) for axes in ((), ("replica",)))
        batch, self._length = tokens.shape
        self._prompt = prompt_length(self._length)
        prefill, decode = generation_programs(workload, model, self._length)
        self._jax = jax
        self._weights = jax.device_put(
            [variable.value for variable in (*model.trainable_variables, *model.non_trainable_variables)], whole
        )
        self._tokens = jax.device_put(tokens[:, : self._prompt], rows)
        self._prefill = jax.jit(prefill, out_shardings=(rows, rows))
        self._decode = jax.jit(decode, donate_argnums=(0,), out_shardings=(rows, rows))
        self._position = self._length
        self._cache: Any = None
        self._next: Any = None
        empty = jax.eval_shape(lambda: workload.generation(model).empty_cache(batch, self._length))
        self.cache_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(empty))

    def prefill(self) -> None:
        """Fill a new cache."""
        self._cache = self._next = None  # the old one goes first
        self._cache, self._next = self._jax.block_until_ready(self._prefill(self._weights, self._tokens))
        self._position = self._prompt

    def decode(self, steps: int) -> None:
        """When all places are filled, those behind the prompt are used again: each token costs the same."""
        for _ in range(steps):
            place = np.int32(self._position)
            self._cache, self._next = self._decode(self._cache, self._weights, self._next, place)
            self._position = self._position + 1 if self._position + 1 < self._length else self._prompt
        self._jax.block_until_ready((self._cache, self._next))
