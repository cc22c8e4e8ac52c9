"""A single operation repeated by JAX on every replica."""

from typing import Any

import numpy as np

from whichdevice.backends.jax_training import LOOP_STEPS, StepPrograms
from whichdevice.workloads.base import OperationWorkload


class JaxOperation:
    """Each replica carries its own state; the operands lie on all of them.

    The states lie one after the other along the first axis: with an axis of their own XLA's CPU compiler would copy
    them at each step.
    """

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
            return jnp.concatenate([value] * mesh.size)

        def step(states: Any, held: Any) -> Any:
            return jax.lax.optimization_barrier(workload.step(states, held))  # no two steps in one pass

        everywhere = jax.shard_map(step, mesh=mesh, in_specs=(spec("replica"), spec()), out_specs=spec("replica"))
        self._start = jax.jit(start, out_shardings=split)
        self._bounded = workload.bounded
        self._states: Any = None
        self.programs = StepPrograms(jax, everywhere, loops=True, in_place=workload.bounded)
        first = (slice(None, None, state.shape[0]), *[0] * (state.ndim - 1))  # one number of each replica
        self._corner = jax.jit(lambda states: states[first], out_shardings=whole)
        jax.block_until_ready((self._operands, self._initial))  # the way to the device is no part of the first step

    def run(self, steps: int) -> None:
        """Run and wait: reading one number of each replica's result needs all of it."""
        states = self.states_after(steps)
        if not np.isfinite(np.asarray(self._corner(states), np.float32)).all():
            raise FloatingPointError("the chain of products is no longer finite")

    def states_after(self, steps: int) -> Any:
        """The state of every replica after so many steps, one after the other; returns before the device is done.

        Each call starts from the initial state, as rounding to 16 bits lets a chain grow over hundreds of thousands of
        steps; a bounded one works in place and goes on where it was.
        """
        if self._states is None:
            self._states = self._start(self._initial)
        states = self._states
        for done in range(0, steps, LOOP_STEPS):
            states = self.programs.run(states, self._operands, min(LOOP_STEPS, steps - done))
        if self._bounded:
            self._states = states
        return states
