"""Operations of one call of a function of `keras.ops`, from the shapes of its arguments and its result."""

from collections.abc import Sequence
from math import prod
from typing import Any


def einsum_operations(equation: str, shapes: Sequence[Sequence[int]]) -> float:
    """Two operations for each combination of all indices; `...` stands for leading axes of the first factor."""
    sides = equation.replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    leading = 1
    for labels, shape in zip(sides, shapes, strict=True):
        head, dots, tail = labels.partition("...")
        spread = len(shape) - len(head) - len(tail) if dots else 0
        leading = max(leading, prod(shape[len(head) : len(head) + spread]))
        sizes |= dict(zip(head, shape, strict=False))
        sizes |= dict(zip(tail, shape[len(head) + spread :], strict=False))
    return (2.0 if len(sides) > 1 else 0.0) * leading * prod(sizes.values())


def matmul(out: Any, x1: Any, x2: Any, *_: Any) -> float:
    """Of matrices, or stacks of them."""
    return 2.0 * prod(out.shape) * x1.shape[-1]


def einsum(out: Any, equation: str, *factors: Any, **_: Any) -> float:
    """Of all factors at once."""
    return einsum_operations(equation, [factor.shape for factor in factors])


def contracted(out: Any, x1: Any, x2: Any, *_: Any, **__: Any) -> float:
    """Contracted sizes k appear in both factors and not in the result: |x1|·|x2| = |out|·k²."""
    size = prod(out.shape)
    return 2.0 * size * (prod(x1.shape) * prod(x2.shape) / size) ** 0.5 if size else 0.0


def _places(shape: Any, data_format: str | None) -> int:
    sizes = list(shape)[1:]
    return prod(sizes[1:] if data_format == "channels_first" else sizes[:-1])


def convolution(out: Any, inputs: Any, kernel: Any, *_: Any, data_format: str | None = None, **__: Any) -> float:
    """Of each place of the result with the whole kernel."""
    return 2.0 * _places(out.shape, data_format) * prod(kernel.shape)


def transposed_convolution(out: Any, inputs: Any, kernel: Any, *_: Any, **keywords: Any) -> float:
    """Of each place of the input with the whole kernel."""
    return 2.0 * _places(inputs.shape, keywords.get("data_format")) * prod(kernel.shape)


def separable_convolution(out: Any, inputs: Any, depthwise: Any, pointwise: Any, *_: Any, **keywords: Any) -> float:
    """Of both its kernels."""
    places = _places(out.shape, keywords.get("data_format"))
    return 2.0 * places * (prod(depthwise.shape) + prod(pointwise.shape))


def attention(out: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> float:
    """Scores and mixture over [batch, length, heads, size], every place with every other, masked or not."""
    batch, length, heads, size = query.shape
    return 2.0 * batch * heads * length * key.shape[1] * (size + value.shape[-1])
