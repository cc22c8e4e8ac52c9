"""Weights divided over the devices along the model's width, layers stacked and scanned, as MaxText does it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from benchmarks.tpu_model.adam import Moments, adam_updates, moments_of
from benchmarks.tpu_model.work import P, shape
from jax.sharding import Mesh, NamedSharding


class Weight(NamedTuple):
    """Dimensions without the layers' axis, and which of them is the model's width (None: copied to every device)."""

    dims: tuple[int, ...]
    width: int | None


def placed_weights(weights: dict[str, Weight], mesh: Mesh, layers: int | None = None) -> dict[str, Any]:
    """Float32 shapes; with `layers`, stacked along the second axis."""
    result = {}
    for name, (dims, width) in weights.items():
        spec: list[str | None] = ["batch" if axis == width else None for axis in range(len(dims))]
        if layers is not None:
            dims, spec = (dims[0], layers, *dims[1:]), [spec[0], None, *spec[1:]]
        result[name] = jax.ShapeDtypeStruct(dims, "float32", sharding=NamedSharding(mesh, P(*spec)))
    return result


def placed_moments(weights: Any, mesh: Mesh) -> Moments:
    """Divided as the weights are."""
    count = jax.ShapeDtypeStruct((), "int32", sharding=NamedSharding(mesh, P()))
    return moments_of(weights)._replace(count=count)


def placed_batch(mesh: Mesh, batch: int, sequence: int) -> dict[str, Any]:
    """Inputs, targets, positions and segments, int32 [batch, sequence]."""
    sharding = NamedSharding(mesh, P("batch"))
    tokens = jax.ShapeDtypeStruct(shape(batch, sequence).shape, "int32", sharding=sharding)
    return {name: tokens for name in ("inputs", "targets", "positions", "segments")}


def scanned(layer: Callable[..., jax.Array], x: jax.Array, stacked: Any, policy: Any) -> jax.Array:
    """Run the layers one after another, recomputing in the backward pass what the policy does not save."""
    remembered = jax.checkpoint(lambda x, weights: (layer(x, weights), None), policy=policy, prevent_cse=False)
    return jax.lax.scan(remembered, x, jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 1, 0), stacked))[0]


def length_of(tree: Any) -> jax.Array:
    """Euclidean norm over all leaves."""
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))


def stepper(loss: Callable[..., jax.Array], decay: float, b2: float, clip: bool) -> Callable[..., Any]:
    """A step: gradients, clipping by the global norm, Adam, and the norms that MaxText reports."""

    def step(weights: Any, moments: Moments, batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, batch)
        length = length_of(gradients)
        if clip:
            gradients = jax.tree.map(lambda leaf: leaf / jnp.maximum(length, 1.0), gradients)
        updates, moments = adam_updates(gradients, moments, weights, rate=3e-5, decay=decay, b2=b2)
        weights = jax.tree.map(jnp.add, weights, updates)
        return weights, moments, {"loss": value, "gradients": length, "weights": length_of(weights)}

    return step


def root_mean_square(x: jax.Array, scale: jax.Array, epsilon: float) -> jax.Array:
    """Normalisation in float32, result and scale in bfloat16."""
    wide = x.astype("float32")
    wide = wide * jax.lax.rsqrt(jnp.mean(wide**2, axis=-1, keepdims=True) + epsilon)
    return wide.astype("bfloat16") * scale.astype("bfloat16")
