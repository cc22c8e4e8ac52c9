"""A single operation repeated by JAX on every replica."""

from typing import Any

import numpy as np

from whichdevice.backends.jax_programs import LOOP_STEPS, StepPrograms
from whichdevice.workloads.base import OperationWorkload


class JaxOperation:
    """Each replica carries its own state; the operands lie on all of them."""

    def __init__(
        self, jax: Any, mesh: Any, workload: OperationWorkload, random: np.random.Generator, dtype: str
    ) -> None:
        jnp, spec = jax.numpy, jax.sharding.PartitionSpec
        state, operands = workload.operands(random)
        split = jax.sharding.NamedSharding(mesh, spec("replica"))
        whole = jax.sharding.NamedSharding(mesh, spec())
        self._operands = {name: jax.device_put(jnp.asarray(array, dtype), whole) for name, array in operands.items()}
        self._initial = jax.device_put(jnp.asarray(state, dtype), whole)

        def start(value: Any) -> Any:
            return jnp.broadcast_to(value[None], (mesh.size, *value.shape))

        def step(states: Any, held: Any) -> Any:
            return workload.step(states[0], held)[None]

        everywhere = jax.shard_map(step, mesh=mesh, in_specs=(spec("replica"), spec()), out_specs=spec("replica"))
        self._start = jax.jit(start, out_shardings=split)
        self.programs = StepPrograms(jax, everywhere, loops=True)
        self._corner = jax.jit(lambda states: states[(slice(None), *[0] * (states.ndim - 1))], out_shardings=whole)

    def run(self, steps: int) -> None:
        """Run from the initial state and wait: reading one number of each replica's result needs all of it.

        Each call starts anew, as rounding to 16 bits lets the chain grow over hundreds of thousands of steps.
        """
        states = self._start(self._initial)
        for done in range(0, steps, LOOP_STEPS):
            states = self.programs.run(states, self._operands, min(LOOP_STEPS, steps - done))
        self._states = states
        if not np.isfinite(np.asarray(self._corner(states), np.float32)).all():
            raise FloatingPointError("the chain of products is no longer finite")
