"""BERT base as its pre-training script runs on a TPU: float32 with the TPU's own products, one-hot lookups.

Masked words and next-sentence loss, dropout everywhere, Adam with weight decay after clipping by the global norm.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from benchmarks.tpu_model.published import Row
from benchmarks.tpu_model.work import P, Work, mesh_of, placed, shape

LAYERS, WIDTH, HEADS, HIDDEN, VOCABULARY, MASKED = 12, 768, 12, 3072, 32000, 75
HEAD, DROPOUT, LONGEST = WIDTH // HEADS, 0.1, 512


def dense(inputs: int, outputs: int) -> dict[str, Any]:
    """A layer's weights."""
    return {"kernel": shape(inputs, outputs), "bias": shape(outputs)}


def norm() -> dict[str, Any]:
    """A layer normalisation's weights."""
    return {"scale": shape(WIDTH), "bias": shape(WIDTH)}


def weight_shapes() -> dict[str, Any]:
    """111 million parameters."""
    layer = {name: dense(WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
    layer |= {"up": dense(WIDTH, HIDDEN), "down": dense(HIDDEN, WIDTH), "norm 1": norm(), "norm 2": norm()}
    return {
        "words": shape(VOCABULARY, WIDTH),
        "segments": shape(2, WIDTH),
        "positions": shape(LONGEST, WIDTH),
        "norm": norm(),
        "layers": [layer] * LAYERS,
        "pooler": dense(WIDTH, WIDTH),
        "transform": dense(WIDTH, WIDTH),
        "transform norm": norm(),
        "word bias": shape(VOCABULARY),
        "next": dense(WIDTH, 2),
    }


def applied(weights: Any, x: jax.Array) -> jax.Array:
    """A dense layer."""
    return x @ weights["kernel"] + weights["bias"]


def normalised(weights: Any, x: jax.Array) -> jax.Array:
    """Layer normalisation."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-12) * weights["scale"] + weights["bias"]


class Dropout:
    """A new key at every call."""

    def __init__(self, key: jax.Array) -> None:
        self.key, self.calls = key, 0

    def __call__(self, x: jax.Array) -> jax.Array:
        """Drop a tenth."""
        self.calls += 1
        keep = jax.random.bernoulli(jax.random.fold_in(self.key, self.calls), 1 - DROPOUT, x.shape)
        return jnp.where(keep, x / (1 - DROPOUT), 0.0)


def attention(weights: Any, x: jax.Array, mask: jax.Array, drop: Dropout) -> jax.Array:
    """Bidirectional, heads apart."""
    q, k, v = (applied(weights[n], x).reshape(*x.shape[:2], HEADS, HEAD) for n in "qkv")
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / HEAD**0.5 + mask
    mixed = jnp.einsum("bhqk,bkhd->bqhd", drop(jax.nn.softmax(scores)), v)
    return applied(weights["output"], mixed.reshape(x.shape))


def encoded(weights: Any, batch: Any, drop: Dropout) -> jax.Array:
    """Token numbers → [batch, sequence, 768]."""
    x = jax.nn.one_hot(batch["words"], VOCABULARY) @ weights["words"]
    x = x + jax.nn.one_hot(batch["segments"], 2) @ weights["segments"] + weights["positions"][: x.shape[1]]
    x = drop(normalised(weights["norm"], x))
    ones = jnp.ones((*batch["mask"].shape, 1))  # the script broadcasts the mask by a product with ones
    mask = (1 - (ones * batch["mask"][:, None].astype("float32"))[:, None]) * -1e4
    for layer in weights["layers"]:
        x = normalised(layer["norm 1"], x + drop(attention(layer, x, mask, drop)))
        x = normalised(layer["norm 2"], x + drop(applied(layer["down"], jax.nn.gelu(applied(layer["up"], x)))))
    return x


def loss(weights: Any, batch: Any, key: jax.Array) -> jax.Array:
    """Masked words and next sentence."""
    x = encoded(weights, batch, Dropout(key))
    places = batch["places"] + jnp.arange(len(x))[:, None] * x.shape[1]
    picked = x.reshape(-1, WIDTH)[places.reshape(-1)]
    picked = normalised(weights["transform norm"], jax.nn.gelu(applied(weights["transform"], picked)))
    words = jax.nn.log_softmax(picked @ weights["words"].T + weights["word bias"])
    entropy = -(words * jax.nn.one_hot(batch["targets"].reshape(-1), VOCABULARY)).sum(-1)
    counted = batch["weights"].reshape(-1)
    pooled = jnp.tanh(applied(weights["pooler"], x[:, 0]))
    following = jax.nn.log_softmax(applied(weights["next"], pooled))
    following_loss = -(following * jax.nn.one_hot(batch["next"], 2)).sum(-1).mean()
    return (entropy * counted).sum() / (counted.sum() + 1e-5) + following_loss


def step(weights: Any, first: Any, second: Any, count: jax.Array, keys: jax.Array, batch: Any) -> Any:
    """One core's share: clipped, then summed over the cores, then Adam without bias correction."""
    # The XLA generator, as TensorFlow uses it on a TPU.
    key = jax.random.wrap_key_data(keys[0], impl="rbg")
    value, gradients = jax.value_and_grad(loss)(weights, batch, key)
    length = jnp.sqrt(sum(jnp.square(each).sum() for each in jax.tree.leaves(gradients)))
    gradients = jax.tree.map(lambda g: g / jnp.maximum(length, 1.0), gradients)
    gradients = jax.lax.pmean(gradients, "batch")
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
    rate = 1e-4 * (1 - count / 2e6)

    def updated(w: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        change = m / (jnp.sqrt(v) + 1e-6)
        return w - rate * (change + 0.01 * w if w.ndim > 1 else change)

    return jax.tree.map(updated, weights, first, second), first, second, count + 1, value[None]


def work(devices: Sequence[Any], row: Row) -> Work:
    """Data parallel over the cores."""
    mesh, weights = mesh_of(devices), weight_shapes()
    state = placed((weights, weights, weights, shape()), mesh)
    long = shape(row.batch, row.sequence, dtype="int32")
    picked = shape(row.batch, MASKED, dtype="int32")
    batch = {"words": long, "segments": long, "mask": long, "places": picked, "targets": picked}
    batch |= {"weights": shape(row.batch, MASKED), "next": shape(row.batch, dtype="int32")}
    divided = (shape(len(devices), 4, dtype="uint32"), batch)
    function = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(P(), P(), P(), P(), P("batch"), P("batch")),
        out_specs=(P(), P(), P(), P(), P("batch")),
        check_vma=False,
    )
    return Work(function, (*state, *placed(divided, mesh, P("batch"))), donate=(0, 1, 2, 3))
