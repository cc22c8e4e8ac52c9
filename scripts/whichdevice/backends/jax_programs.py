"""A repeated step as JAX programs: one step a call, and on accelerators many steps in one compiled loop."""

from collections.abc import Callable
from typing import Any

from whichdevice.machine.cpu import available_memory

LOOP_STEPS = 32  # a call costs the host about as much as a small step costs a GPU

Step = Callable[[Any, Any], Any]


class StepPrograms:
    """Repeats `step(carry, constants) → carry`; where it works `in_place`, the carry's memory is used again.

    A product cannot be written over its own factor: in place, XLA would copy it there after each step. Two such steps a
    turn of the loop leave none to copy.

    Both programs are of fixed length, as a GPU waits for its host at each turn of a loop of unknown length. Both are
    compiled at the first call, so that nothing compiles within a timed window or a learning epoch.
    """

    def __init__(self, jax: Any, step: Step, loops: bool, in_place: bool = True) -> None:
        def loop(carry: Any, constants: Any) -> Any:
            turn = 1 if in_place else 2
            return jax.lax.fori_loop(0, LOOP_STEPS, lambda _, held: step(held, constants), carry, unroll=turn)

        self._jax, self._loops, self._donated = jax, loops, (0,) if in_place else ()
        self._functions = {1: step, LOOP_STEPS: loop}
        self._compiled: dict[int, Any] = {}
        self.written = ""  # HLO of one step before the compiler
        self.executed = ""  # and after it

    def run(self, carry: Any, constants: Any, steps: int) -> Any:
        """So many steps, at most LOOP_STEPS; returns before the device is done."""
        self._compile(1, carry, constants)
        if self._loops:
            self._compile(LOOP_STEPS, carry, constants)
        if self._loops and steps == LOOP_STEPS:
            return self._compiled[LOOP_STEPS](carry, constants)
        for _ in range(steps):
            carry = self._compiled[1](carry, constants)
        return carry

    def _compile(self, length: int, carry: Any, constants: Any) -> None:
        if length in self._compiled:
            return
        kept = self._jax.tree.map(lambda leaf: leaf.sharding, carry)
        function = self._jax.jit(self._functions[length], donate_argnums=self._donated, out_shardings=kept)
        lowered = function.lower(carry, constants)
        self._compiled[length] = lowered.compile()
        _check_host_memory(self._compiled[length], self._jax.tree.leaves(carry)[0].devices())
        if length == 1:
            self.written, self.executed = lowered.as_text("hlo"), self._compiled[length].as_text()


def _check_host_memory(compiled: Any, devices: set[Any]) -> None:
    """Raise MemoryError where a CPU's program cannot fit: the system would kill the process without a word."""
    analysis = compiled.memory_analysis()
    if analysis is None or next(iter(devices)).platform != "cpu":
        return
    need, free = analysis.temp_size_in_bytes * len(devices), available_memory()
    if need > free:
        raise MemoryError(f"the compiled step needs {need / 1e9:.1f} GB beside its data, {free / 1e9:.1f} GB are free")
