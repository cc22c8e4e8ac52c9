"""ResNet-50 as MLPerf v0.5 and Cloud TPU's reference train it: the stride in the 3 × 3, batch statistics on each core.

Activations in bfloat16, weights and statistics in float32; SGD with momentum, label smoothing, L2 on the kernels.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from benchmarks.tpu_model.published import Row
from benchmarks.tpu_model.work import P, Work, mesh_of, placed, shape

CLASSES, SIZE = 1000, 224
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # width, blocks
DECAY, MOMENTUM, RATE, SMOOTHING = 1e-4, 0.9, 0.4, 0.1

Weights = dict[str, jax.Array]


def convolution(x: jax.Array, kernel: jax.Array, stride: int = 1) -> jax.Array:
    """Padding by the kernel's size alone, so that a stride changes no alignment."""
    before = (kernel.shape[0] - 1) // 2
    padding = (before, kernel.shape[0] - 1 - before)
    return jax.lax.conv_general_dilated(
        x, kernel.astype(x.dtype), (stride, stride), (padding, padding), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


class Network:
    """Holds weights and new statistics while the network is laid out; `make` notes shapes instead."""

    def __init__(self, weights: Weights | None = None) -> None:
        self.weights, self.make = dict(weights or {}), weights is None
        self.statistics: dict[str, tuple[jax.Array, jax.Array]] = {}

    def weight(self, name: str, *dims: int) -> jax.Array:
        """A weight, made of zeros where the shapes are only collected."""
        if self.make:
            self.weights[name] = jnp.zeros(dims)
        return self.weights[name]

    def layer(self, name: str, x: jax.Array, width: int, size: int, stride: int = 1, relu: bool = True) -> jax.Array:
        """Convolution, batch normalisation and, but for the last of a block, ReLU."""
        x = convolution(x, self.weight(f"{name} kernel", size, size, x.shape[-1], width), stride)
        wide = x.astype("float32")
        mean = wide.mean((0, 1, 2))
        variance = jnp.square(wide).mean((0, 1, 2)) - jnp.square(mean)
        self.statistics[name] = (mean, variance)
        scale = self.weight(f"{name} scale", width) * jax.lax.rsqrt(variance + 1e-5)
        x = (wide * scale + (self.weight(f"{name} offset", width) - mean * scale)).astype(x.dtype)
        return jax.nn.relu(x) if relu else x

    def block(self, name: str, x: jax.Array, width: int, stride: int) -> jax.Array:
        """1 × 1, 3 × 3, 1 × 1 beside a shortcut."""
        shortcut = x
        if stride > 1 or x.shape[-1] != 4 * width:
            shortcut = self.layer(f"{name} shortcut", x, 4 * width, 1, stride, relu=False)
        x = self.layer(f"{name} a", x, width, 1)
        x = self.layer(f"{name} b", x, width, 3, stride)
        return jax.nn.relu(self.layer(f"{name} c", x, 4 * width, 1, relu=False) + shortcut)

    def logits(self, images: jax.Array) -> jax.Array:
        """[batch, 224, 224, 3] bfloat16 → [batch, 1000] float32."""
        x = self.layer("stem", images, 64, 7, 2)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for stage, (width, blocks) in enumerate(STAGES):
            for number in range(blocks):
                x = self.block(f"{stage}.{number}", x, width, 2 if stage and not number else 1)
        x = x.astype("float32").mean((1, 2)).astype(x.dtype)
        kernel = self.weight("dense kernel", x.shape[-1], CLASSES).astype(x.dtype)
        return (x @ kernel).astype("float32") + self.weight("dense bias", CLASSES)


def loss(weights: Weights, images: jax.Array, labels: jax.Array) -> tuple[jax.Array, Any]:
    """Cross-entropy with smoothed labels and half the weight decay; batch statistics beside it."""
    network = Network(weights)
    target = jax.nn.one_hot(labels, CLASSES) * (1 - SMOOTHING) + SMOOTHING / CLASSES
    entropy = -(target * jax.nn.log_softmax(network.logits(images))).sum(-1).mean()
    penalty = sum(jnp.square(weight).sum() for name, weight in weights.items() if name.endswith("kernel"))
    return entropy + DECAY / 2 * penalty, network.statistics


def step(
    weights: Weights, velocity: Weights, running: Any, images: jax.Array, labels: jax.Array
) -> tuple[Weights, Weights, Any, jax.Array]:
    """One core's share: its own batch statistics, gradients meaned over the cores."""
    (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(weights, images, labels)
    gradients = jax.lax.pmean(gradients, "batch")
    running = jax.tree.map(lambda old, new: MOMENTUM * old + (1 - MOMENTUM) * new, running, statistics)
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, gradients)
    weights = jax.tree.map(lambda w, v: w - RATE * v, weights, velocity)
    return weights, velocity, running, jax.lax.pmean(value, "batch")


def state_shapes() -> tuple[Weights, Any]:
    """Weights and statistics as shapes."""

    def built(images: jax.Array) -> tuple[Weights, Any]:
        network = Network()
        network.logits(images)
        return network.weights, network.statistics

    return jax.eval_shape(built, shape(1, SIZE, SIZE, 3, dtype="bfloat16"))


def work(devices: Sequence[Any], row: Row) -> Work:
    """Data parallel over the cores."""
    mesh = mesh_of(devices)
    weights, statistics = state_shapes()
    images, labels = shape(row.batch, SIZE, SIZE, 3, dtype="bfloat16"), shape(row.batch, dtype="int32")
    function = jax.shard_map(
        step, mesh=mesh, in_specs=(P(), P(), P(), P("batch"), P("batch")), out_specs=P(), check_vma=False
    )
    state = placed((weights, weights, statistics), mesh)
    return Work(function, (*state, *placed((images, labels), mesh, P("batch"))), donate=(0, 1, 2))
