"""The work and memory of small programs whose answer is known: lowered by JAX, counted without a compiler."""

from collections.abc import Iterator
from typing import Any

import jax
import pytest
from jax import export, lax
from jax import numpy as jnp

from whichdevice.base.errors import StudyError
from whichdevice.forecast.count.fusion import Counted
from whichdevice.forecast.count.stablehlo import count_program
from whichdevice.forecast.work import Work

MEBI = 2**20
F32, BF16 = jnp.float32, jnp.bfloat16


@pytest.fixture(autouse=True)
def default_products() -> Iterator[None]:
    """Products as JAX has them by default, whatever other tests of this process have set."""
    with jax.default_matmul_precision("default"):
        yield


def count(function: Any, *shapes: Any, dtype: Any = F32, **options: Any) -> Counted:
    arguments = [
        shape if isinstance(shape, jax.ShapeDtypeStruct) else jax.ShapeDtypeStruct(shape, dtype) for shape in shapes
    ]
    return count_program(jax.jit(function, **options).trace(*arguments).lower(lowering_platforms=("cuda",)))


def work(function: Any, *shapes: Any, dtype: Any = F32, **options: Any) -> Work:
    return count(function, *shapes, dtype=dtype, **options).total().work("gpu")


def kinds(counted: Work) -> dict[str, float]:
    return {f"{item.kind} {item.precision}".strip(): item.count for item in counted.items}


def test_a_product_has_two_operations_for_each_pair_and_moves_its_three_matrices():
    [product] = work(lambda a, b: a @ b, (512, 256), (256, 1024), dtype=BF16).items
    assert (product.kind, product.precision, product.count) == ("product", "half", 1)
    assert product.operations == 2 * 512 * 256 * 1024
    assert product.bytes == 2 * (512 * 256 + 256 * 1024 + 512 * 1024)


@pytest.mark.parametrize(
    ("asked", "precision"),
    [("highest", "float32"), ("tensorfloat32", "tf32"), ("default", "tf32"), ("bfloat16", "tf32")],
)
def test_a_product_of_float32_has_the_format_that_is_asked_for(asked, precision):
    with jax.default_matmul_precision(asked):
        assert precision in {item.precision for item in work(lambda a, b: jnp.dot(a, b), (64, 64), (64, 64)).items}


def test_a_chain_of_element_wise_operations_is_one_kernel_that_reads_and_writes_once():
    [kernel] = work(lambda x: jnp.tanh(x * 2 + 1) - 3, (MEBI,)).items
    assert (kernel.kind, kernel.bytes, kernel.count) == ("memory", 2 * 4 * MEBI, 1)


def test_what_follows_a_product_is_one_kernel_more():
    assert kinds(work(lambda a, b: jax.nn.gelu(a @ b), (64, 64), (64, 64), dtype=BF16)) == {
        "product half": 1, "memory": 1,
    }  # fmt: skip


def test_a_softmax_is_two_or_three_kernels_and_a_view_is_none():
    assert 2 <= work(lambda x: jax.nn.softmax(x.reshape(64, -1).T, axis=0), (64, 8, 128)).kernels <= 3
    assert work(lambda x: x.reshape(-1).reshape(64, 64).T[:32], (64, 64)).kernels == 0


def test_a_scan_runs_its_body_as_often_as_it_has_steps():
    def steps(x: Any, weights: Any) -> Any:
        return lax.scan(lambda state, weight: (jnp.tanh(state @ weight), None), x, weights)[0]

    counted = count(steps, (32, 64), (7, 64, 64))
    assert counted.total().work("gpu").operations == 7 * 2 * 32 * 64 * 64
    small = counted.total(small_loops=1e6).work("gpu")
    assert sum(item.count for item in small.items if item.kind == "recurrent") >= 7
    assert counted.total({7}).work("gpu").operations == 0  # where cuDNN's layers stand in its place
    assert counted.unknown_loops == 0


def test_a_loop_of_unknown_length_counts_once_and_is_told():
    def until(x: Any) -> Any:
        return lax.while_loop(lambda state: state.sum() < 10, lambda state: state @ state, x)

    counted = count(until, (64, 64))
    total = counted.total()
    assert total.unknown_loops == 1 and total.work("gpu").operations == 2 * 64**3


def test_a_scan_of_scans_multiplies():
    def inner(state: Any, _: Any) -> Any:
        return lax.scan(lambda y, __: (y @ y, None), state, None, length=5)[0], None

    assert work(lambda x: lax.scan(inner, x, None, length=3)[0], (16, 16)).operations == 15 * 2 * 16**3


def test_of_two_branches_the_one_with_more_work_counts():
    def either(x: Any, chosen: Any) -> Any:
        return lax.cond(chosen > 0, lambda y: y @ y @ y, lambda y: y, x)

    assert work(either, (64, 64), jax.ShapeDtypeStruct((), jnp.int32)).operations == 2 * 2 * 64**3


IMAGES, FILTER = (8, 32, 32, 16), (3, 3, 16, 32)


def convolved(images: Any, weights: Any, stride: int = 1, groups: int = 1) -> Any:
    return lax.conv_general_dilated(
        images, weights, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )  # fmt: skip


@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_and_its_two_gradients_do_the_same_operations(stride):
    """Padding has no operations, nor have the gaps of a strided convolution's gradient."""
    forward = work(lambda x, w: convolved(x, w, stride), IMAGES, FILTER)
    both = work(jax.grad(lambda x, w: convolved(x, w, stride).sum(), (0, 1)), IMAGES, FILTER)
    across = {1: 3 * 32 - 2, 2: 3 * 16 - 1}[stride]  # pairs of kernel and true input along one axis
    assert forward.operations == 2 * 8 * across**2 * 16 * 32
    assert both.operations == 2 * forward.operations


def test_a_depthwise_convolution_is_grouped():
    depthwise = work(lambda x, w: convolved(x, w, groups=16), IMAGES, (3, 3, 1, 16))
    assert kinds(depthwise) == {"grouped convolution tf32": 1}
    assert depthwise.operations == 2 * 8 * (3 * 32 - 2) ** 2 * 16


def test_rows_that_are_gathered_count_as_those_alone():
    rows = jax.ShapeDtypeStruct((128,), jnp.int32)
    gathered = work(lambda table, at: table[at], (100_000, 64), rows)
    assert kinds(gathered) == {"gather and scatter": 1} and gathered.bytes < 3 * 128 * 64 * 4
    scattered = work(lambda table, at: table.at[at].add(1.0), (100_000, 64), rows, donate_argnums=0)
    assert scattered.bytes < 4 * 128 * 64 * 4


def test_a_donated_state_is_overwritten():
    update = lambda state, gradient: state - 0.1 * gradient  # noqa: E731
    plain, donated = count(update, (MEBI,), (MEBI,)), count(update, (MEBI,), (MEBI,), donate_argnums=0)
    assert (plain.arguments, plain.results) == (2 * 4 * MEBI, 4 * MEBI)
    assert (donated.arguments, donated.results, donated.temporary) == (2 * 4 * MEBI, 0, 0)


def test_what_lives_between_is_what_later_kernels_read():
    def deep(x: Any, weights: Any) -> Any:
        for _ in range(4):
            x = jnp.tanh(x @ weights)
        return x.sum()

    square = 4 * 512 * 512
    assert count(deep, (512, 512), (512, 512)).temporary <= 2 * square
    backward = count(jax.grad(deep, 1), (512, 512), (512, 512)).temporary
    assert 4 * square <= backward <= 7 * square  # each layer's result is kept


def test_what_nobody_reads_is_not_computed():
    assert work(lambda a: (a @ a, a * 2)[1], (64, 64)).operations == 0


def test_shapes_that_depend_on_values_are_refused_in_one_line():
    rows = jax.ShapeDtypeStruct(export.symbolic_shape("rows, 4"), F32)
    with pytest.raises(StudyError, match="cannot be counted"):
        count(lambda x: x * 2, rows)
