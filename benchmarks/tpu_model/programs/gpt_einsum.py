"""A GPT of 268 million parameters whose attention is two einsums, as its notebook runs from the second step on.

Everything in float32 with the TPU's own products, rotary tables in bfloat16; AdamW leaf by leaf, nothing overwritten.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from benchmarks.tpu_model.published import Row
from benchmarks.tpu_model.work import Work, mesh_of, placed, shape

LAYERS, WIDTH, HEADS, HEAD, VOCABULARY, SOFTCAP = 16, 1024, 8, 128, 32768, 15.0
RATE, B1, B2, EPSILON, DECAY = 3e-4, 0.9, 0.95, 1e-8, 0.1


def weight_shapes() -> dict[str, Any]:
    """Weights; moments and gradients have the same shapes."""
    layer = {name: shape(WIDTH, HEADS, HEAD) for name in "qkv"}
    layer |= {"output": shape(HEADS, HEAD, WIDTH), "up": shape(WIDTH, 4 * WIDTH), "down": shape(4 * WIDTH, WIDTH)}
    return {
        "embedding": shape(VOCABULARY, WIDTH),
        "logits": shape(WIDTH, VOCABULARY),
        "keep": shape(LAYERS),
        "first": shape(LAYERS),
        "layers": [layer] * LAYERS,
    }


def normalised(x: jax.Array) -> jax.Array:
    """Root mean square, no weights."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def rotated(x: jax.Array, cosine: jax.Array, sine: jax.Array) -> jax.Array:
    """Rotary embedding by halves; x is [batch, sequence, heads, head]."""
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cosine + second * sine, second * cosine - first * sine], axis=-1)


def attention(layer: Any, x: jax.Array, window: int, tables: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Causal, the last `window` tokens by mask."""
    q, k, v = (jnp.einsum("btd,dhk->bthk", x, layer[name]) for name in "qkv")
    q, k = (normalised(rotated(each, *(table[None, :, None] for table in tables))) for each in (q, k))
    scores = jnp.einsum("bthd,bshd->bhts", q, k) * HEAD**-0.5
    row, column = jnp.arange(x.shape[1])[:, None], jnp.arange(x.shape[1])[None]
    mask = (column <= row) & (column >= row - window + 1) if window < x.shape[1] else column <= row
    shares = jax.nn.softmax(jnp.where(mask, scores, jnp.finfo(scores.dtype).min), axis=-1)
    return jnp.einsum("bthd,hde->bte", jnp.einsum("bhts,bshd->bthd", shares, v), layer["output"])


def loss(weights: Any, tables: tuple[jax.Array, jax.Array], tokens: jax.Array, targets: jax.Array) -> jax.Array:
    """Mean cross-entropy; three layers of four see half the sequence, the last one all of it."""
    x = start = normalised(weights["embedding"][tokens])
    for number, layer in enumerate(weights["layers"]):
        long = number % 4 == 3 or number == LAYERS - 1
        mixed = attention(layer, normalised(x), tokens.shape[1] // (1 if long else 2), tables)
        x = weights["keep"][number] * x + weights["first"][number] * start + mixed
        x = x + jax.nn.relu(normalised(x) @ layer["up"]) ** 2 @ layer["down"]
    logits = (normalised(x) @ weights["logits"]).astype("float32")
    logits = SOFTCAP * jnp.tanh(logits / SOFTCAP)
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


def adamw(
    rate: jax.Array, weight: jax.Array, gradient: jax.Array, first: jax.Array, second: jax.Array, count: Any
) -> Any:
    """One leaf, which counts its own steps."""
    count = count + 1
    first = B1 * first + (1 - B1) * gradient
    second = B2 * second + (1 - B2) * gradient**2
    change = (first / (1 - B1**count)) / (jnp.sqrt(second / (1 - B2**count)) + EPSILON)
    return weight - rate * (change + (DECAY if weight.ndim > 1 else 0.0) * weight), first, second, count


def step(weights: Any, state: Any, tables: Any, tokens: jax.Array, targets: jax.Array, scale: jax.Array) -> Any:
    """Loss, new weights and new state; `scale` is the schedule's factor."""
    value, gradients = jax.value_and_grad(loss)(weights, tables, tokens, targets)
    leaves, tree = jax.tree.flatten(weights)
    pairs = zip(leaves, jax.tree.leaves(gradients), state, strict=True)
    new = [adamw(RATE * scale, weight, gradient, *held) for weight, gradient, held in pairs]
    return value, tree.unflatten([each[0] for each in new]), [each[1:] for each in new]


def work(devices: Sequence[Any], row: Row) -> Work:
    """One chip."""
    weights = weight_shapes()
    state = [(leaf, leaf, shape(dtype="int32")) for leaf in jax.tree.leaves(weights)]
    table = shape(row.sequence, HEAD // 2, dtype="bfloat16")
    tokens = shape(row.batch, row.sequence, dtype="int32")
    return Work(step, placed((weights, state, (table, table), tokens, tokens, shape()), mesh_of(devices)))
