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

from whichdevice.forecast.targets import environment, find_target
from whichdevice.forecast.xla.hlo_text import Program, parse_program
from whichdevice.forecast.xla.programs import describe

FOLDER = Path(__file__).parent / "programs"
MEBI = 2**20


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


def product(precision: str | None, dtype: str = "float32") -> tuple[Callable, tuple, tuple]:
    from jax import numpy as jnp

    return lambda a, b: jnp.matmul(a, b, precision=precision), (((1024, 512), dtype), ((512, 256), dtype)), ()


def convolution(groups: int = 1, stride: int = 1) -> Callable[..., Any]:
    """Of NHWC images with a kernel of 3 × 3 and padding 1."""
    import jax

    return lambda x, w: jax.lax.conv_general_dilated(
        x, w, (stride, stride), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


def gradients(groups: int) -> Callable[..., Any]:
    """Of a convolution with a stride of 2, by image and kernel."""
    import jax

    made = convolution(groups, 2)
    return lambda x, w: jax.grad(lambda x, w: (made(x, w).astype("float32") ** 2).sum(), argnums=(0, 1))(x, w)


IMAGES, KERNEL, DEPTHWISE = (8, 32, 32, 64), (3, 3, 64, 128), (3, 3, 1, 64)


def scaled_rows() -> tuple[Callable, tuple, tuple]:
    from jax import numpy as jnp

    shapes = (((32768, 512), "float32"), ((4096,), "int32"))
    return lambda table, index: jnp.take(table, index, axis=0, mode="clip") * 2 + 1, shapes, ()


def update() -> tuple[Callable, tuple, tuple]:
    import jax

    shapes = (((1024, 4096), "float32"), ((1, 4096), "float32"))
    return lambda stack, row: jax.lax.dynamic_update_slice(stack, row * 2, (3, 0)), shapes, ()


def loop() -> tuple[Callable, tuple, tuple]:
    import jax
    from jax import numpy as jnp

    def looped(x: Any, w: Any) -> Any:
        return jax.lax.scan(lambda carry, _: (jnp.tanh(carry @ w), None), x, None, length=7)[0]

    return looped, (((512, 512), "bfloat16"), ((512, 512), "bfloat16")), ()


# Name of the text, target, devices, and the program: function, shapes, which of them are divided over the devices.
RECORDED: tuple[tuple[str, str, int, Callable[[], tuple]], ...] = (
    ("nested_loops", "A100", 1, nested_loops),
    ("reversed_scan", "A100", 1, reversed_scan),
    ("unknown_loop", "A100", 1, unknown_loop),
    ("conditional", "A100", 1, conditional),
    ("batched_matmul", "A100", 1, batched_matmul),
    ("product", "V100", 1, lambda: product("highest")),
    ("product", "A100", 1, lambda: product(None)),
    ("product_half", "H100", 1, lambda: product(None, "bfloat16")),
    ("convolution", "V100", 1, lambda: (convolution(), ((IMAGES, "float32"), (KERNEL, "float32")), ())),
    ("convolution_gradients", "A100", 1, lambda: (gradients(1), ((IMAGES, "bfloat16"), (KERNEL, "bfloat16")), ())),
    ("depthwise", "A100", 1, lambda: (convolution(64), ((IMAGES, "bfloat16"), (DEPTHWISE, "bfloat16")), ())),
    ("depthwise_gradients", "T4", 1, lambda: (gradients(64), ((IMAGES, "float16"), (DEPTHWISE, "float16")), ())),
    ("gather", "H100", 1, scaled_rows),
    ("update", "H100", 1, update),
    ("loop", "A100", 1, loop),
    ("all_reduce", "A100", 2, all_reduce),
)


def compiled(name: str, target_name: str) -> str:
    """The text of one, compiled anew."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    devices, made = next(each[2:] for each in RECORDED if each[:2] == (name, target_name))
    function, shapes, divided = made()
    mesh = Mesh(np.array(describe(find_target(target_name, devices)).devices), ("batch",))
    whole, split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("batch"))
    arguments = [
        jax.ShapeDtypeStruct(*shape, sharding=split if number in divided else whole)
        for number, shape in enumerate(shapes)
    ]
    outputs = {"out_shardings": whole} if divided else {}
    donated = (0,) if name == "update" else ()
    lowered = jax.jit(function, donate_argnums=donated, **outputs).lower(*arguments)
    return without_places(lowered.compile().as_text())


@cache
def text(name: str) -> str:
    """The recorded text, by name and target: `loop-A100`."""
    return (FOLDER / f"{name}.hlo").read_text(encoding="utf-8")


def program(name: str) -> Program:
    """The recorded program."""
    return parse_program(text(name))


def without_places(scheduled: str) -> str:
    """The text without source files and without what no reader needs."""
    scheduled = re.sub(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(.+\n)*", "", scheduled)
    return re.sub(r",? metadata=\{[^}]*\}", "", scheduled)


if __name__ == "__main__":
    os.environ.update(environment(["cuda"]))
    FOLDER.mkdir(exist_ok=True)
    for name, target, _, _ in (each for each in RECORDED if not sys.argv[1:] or each[0] in sys.argv[1:]):
        (FOLDER / f"{name}-{target}.hlo").write_text(compiled(name, target), encoding="utf-8")
        print(name, target, file=sys.stderr)
