"""Small programs with known answers, and how their scheduled text was recorded.

`PYTHONPATH=scripts python tests/forecast/small_programs.py` compiles them anew into tests/forecast/programs/.
"""

import os
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from whichdevice.forecast.device_time import DeviceTime, device_time
from whichdevice.forecast.program import CompiledStep, compile_step

from whichdevice.forecast.hlo import Program, parse_program
from whichdevice.forecast.targets import TOPOLOGIES, Device, device_of, environment

FOLDER = Path(__file__).parent / "programs"
MEBI = 2**20


def matmul() -> tuple[Callable, tuple, tuple]:
    return lambda a, b: a @ b, (((4096, 4096), "bfloat16"), ((4096, 4096), "bfloat16")), ()


def matmul_float32() -> tuple[Callable, tuple, tuple]:
    from jax import numpy as jnp

    shape = ((2048, 2048), "float32")
    return lambda a, b: jnp.matmul(a, b, precision="highest"), (shape, shape), ()


def large_add() -> tuple[Callable, tuple, tuple]:
    return lambda a, b: a + b, (((16 * MEBI,), "float32"), ((16 * MEBI,), "float32")), ()


def gather() -> tuple[Callable, tuple, tuple]:
    from jax import numpy as jnp

    shapes = (((32768, 512), "float32"), ((4096,), "int32"))
    return lambda table, index: jnp.take(table, index, axis=0, mode="clip"), shapes, ()


def pooling_backward() -> tuple[Callable, tuple, tuple]:
    import jax

    def pooled(x: Any) -> Any:
        return jax.lax.reduce_window(x, -float("inf"), jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")

    shapes = (((256, 32, 32, 64), "float32"), ((256, 16, 16, 64), "float32"))
    return lambda x, weights: jax.grad(lambda x: (pooled(x) * weights).sum())(x), shapes, ()


def nested_loops() -> tuple[Callable, tuple, tuple]:
    import jax
    from jax import numpy as jnp

    def looped(x: Any, w: Any) -> Any:
        def inner(carry: Any, _: None) -> Any:
            return jnp.tanh(carry @ w), None

        def outer(carry: Any, _: None) -> Any:
            return jax.lax.scan(inner, carry, None, length=5)[0] + 1, None

        return jax.lax.scan(outer, x, None, length=7)[0]

    return looped, (((512, 512), "bfloat16"), ((512, 512), "bfloat16")), ()


def reversed_scan() -> tuple[Callable, tuple, tuple]:
    """Reads one slice of a stack and writes one slice of another in each of 64 steps, from the last to the first."""
    import jax

    def scanned(stack: Any) -> Any:
        def body(carry: Any, row: Any) -> Any:
            return carry * 0.5 + row, carry

        return jax.lax.scan(body, stack[0], stack, reverse=True)[1]

    return scanned, (((64, 1024, 1024), "float32"),), ()


def unknown_loop() -> tuple[Callable, tuple, tuple]:
    import jax
    from jax import numpy as jnp

    def looped(x: Any, w: Any, count: Any) -> Any:
        start = (jnp.int32(0), x)
        return jax.lax.while_loop(lambda c: c[0] < count[0], lambda c: (c[0] + 1, jnp.tanh(c[1] @ w)), start)[1]

    return looped, (((1024, 1024), "bfloat16"), ((1024, 1024), "bfloat16"), ((1,), "int32")), ()


def conditional() -> tuple[Callable, tuple, tuple]:
    import jax

    def chosen(x: Any, w: Any, which: Any) -> Any:
        return jax.lax.cond(which[0] > 0, lambda: x @ w @ w @ w, lambda: x + 1)

    return chosen, (((1024, 1024), "bfloat16"), ((1024, 1024), "bfloat16"), ((1,), "int32")), ()


def all_reduce() -> tuple[Callable, tuple, tuple]:
    import jax

    def gradient(w: Any, x: Any) -> Any:
        return jax.grad(lambda w: ((x @ w) ** 2).mean())(w)

    return gradient, (((1024, 1024), "float32"), ((4096, 1024), "float32")), (1,)


def batched_matmul() -> tuple[Callable, tuple, tuple]:
    shapes = (((16, 512, 256), "bfloat16"), ((16, 256, 128), "bfloat16"))
    return lambda a, b: a @ b, shapes, ()


# Program and slice. v2 has no on-chip memory that a program could keep arrays in, v5e has.
RECORDED = (
    (matmul, "v2-2x2"),
    (matmul, "v4-2x2x1"),
    (matmul, "v5e-1x1"),
    (matmul_float32, "v3-2x2"),
    (large_add, "v3-2x2"),
    (gather, "v2-2x2"),
    (gather, "v5e-1x1"),
    (pooling_backward, "v2-2x2"),
    (nested_loops, "v5e-1x1"),
    (reversed_scan, "v2-2x2"),
    (unknown_loop, "v5e-1x1"),
    (conditional, "v5e-1x1"),
    (all_reduce, "v5e-2x2"),
    (all_reduce, "v2-2x2"),
    (batched_matmul, "v5e-1x1"),
)


def compiled(program: Callable[[], tuple], topology: str) -> CompiledStep:
    """Compile one anew."""
    import jax

    function, shapes, batch = program()
    return compile_step(function, [jax.ShapeDtypeStruct(*shape) for shape in shapes], topology, batch)


@cache
def text(name: str, topology: str) -> str:
    """The recorded text."""
    return (FOLDER / f"{name}-{topology}.hlo").read_text(encoding="utf-8")


def program(name: str, topology: str) -> Program:
    """The recorded program."""
    return parse_program(text(name, topology))


def device(topology: str) -> Device:
    """One of its devices."""
    return device_of(TOPOLOGIES[topology].chip)


def modelled(name: str, topology: str) -> DeviceTime:
    """The model's answer to the recorded program."""
    return device_time(program(name, topology), device(topology))


def without_places(scheduled: str) -> str:
    """The text without source files and without what no reader needs."""
    scheduled = re.sub(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(.+\n)*", "", scheduled)
    return re.sub(r", metadata=\{[^}]*\}", "", scheduled)


if __name__ == "__main__":
    os.environ.update(environment(TOPOLOGIES["v2-2x2"]))
    FOLDER.mkdir(exist_ok=True)
    for made, slice_ in RECORDED:
        step = compiled(made, slice_)
        (FOLDER / f"{made.__name__}-{slice_}.hlo").write_text(without_places(step.text), encoding="utf-8")
        print(made.__name__, slice_, step.time.low, step.time.high, step.time.timed_share, file=sys.stderr)
