"""Adam and AdamW over a tree, in the types of its leaves, and one data-parallel step."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Moments(NamedTuple):
    """First and second moment, and the number of steps."""

    first: Any
    second: Any
    count: Any


def adam_updates(
    gradients: Any, moments: Moments, weights: Any, rate: float, decay: float = 0.0, b2: float = 0.999
) -> tuple[Any, Moments]:
    """What to add to the weights. Decoupled weight decay on leaves with two axes or more; nothing is clipped."""
    count = moments.count + 1
    first = jax.tree.map(lambda g, m: 0.9 * m + 0.1 * g, gradients, moments.first)
    second = jax.tree.map(lambda g, v: b2 * v + (1 - b2) * g * g, gradients, moments.second)
    steps = count.astype("float32")
    scale1, scale2 = 1 / (1 - 0.9**steps), 1 / (1 - b2**steps)

    def update(m: jax.Array, v: jax.Array, w: jax.Array) -> jax.Array:
        change = (m * scale1.astype(m.dtype)) / (jnp.sqrt(v * scale2.astype(v.dtype)) + 1e-8)
        return (-rate * (change + (decay * w if decay and w.ndim > 1 else 0.0))).astype(w.dtype)

    return jax.tree.map(update, first, second, weights), Moments(first, second, count)


def moments_of(weights: Any) -> Moments:
    """Shapes of the moments of a tree of shapes."""
    return Moments(weights, weights, jax.ShapeDtypeStruct((), "int32"))
