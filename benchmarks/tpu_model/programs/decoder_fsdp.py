"""MaxText's default decoder of April 2023, 0.8 billion parameters: attention beside the feed-forward."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.tpu_model.fsdp import (
    Weight,
    placed_batch,
    placed_moments,
    placed_weights,
    root_mean_square,
    scanned,
    stepper,
)
from benchmarks.tpu_model.published import Row
from benchmarks.tpu_model.work import P, Work, mesh_of
from jax.sharding import Mesh, NamedSharding

LAYERS, WIDTH, HEADS, HEAD, HIDDEN, VOCABULARY = 16, 2048, 8, 256, 8192, 2048
BUCKETS, FURTHEST = 32, 128
LAYER = {
    "norm": Weight((WIDTH,), 0),
    "positions": Weight((HEADS, BUCKETS), None),
    "q": Weight((WIDTH, HEADS, HEAD), 0),
    "k": Weight((WIDTH, HEADS, HEAD), 0),
    "v": Weight((WIDTH, HEADS, HEAD), 0),
    "output": Weight((HEADS, HEAD, WIDTH), 2),
    "up": Weight((WIDTH, HIDDEN), 0),
    "down": Weight((HIDDEN, WIDTH), 1),
}
ENDS = {"embedding": Weight((VOCABULARY, WIDTH), 1), "norm": Weight((WIDTH,), 0)}


def bucket_of(length: int) -> np.ndarray:
    """T5's buckets of relative position, [query, key]."""
    back = np.maximum(np.arange(length)[:, None] - np.arange(length)[None], 0)
    exact = BUCKETS // 2
    far = exact + (
        np.log(np.maximum(back, 1) / exact + np.finfo(np.float32).eps) / np.log(FURTHEST / exact) * (BUCKETS - exact)
    ).astype(np.int32)
    return np.where(back < exact, back, np.minimum(far, BUCKETS - 1))


def mask_of(batch: Any) -> jax.Array:
    """Causal, no padding, packed sequences apart: [batch, 1, query, key] bfloat16 to add to the scores."""
    place = jnp.broadcast_to(jnp.arange(batch["targets"].shape[1]), batch["targets"].shape)
    real, segments = batch["targets"] > 0, batch["segments"]
    allowed = (place[:, :, None] >= place[:, None]) & (real[:, :, None] & real[:, None])
    allowed &= segments[:, :, None] == segments[:, None]
    return jnp.where(allowed[:, None], 0.0, -1e10).astype("bfloat16")


class Decoder:
    """The loss, with activations kept divided along the batch."""

    def __init__(self, mesh: Mesh) -> None:
        self.sharding = NamedSharding(mesh, P("batch"))

    def kept(self, x: jax.Array) -> jax.Array:
        """Divided along the batch."""
        return jax.lax.with_sharding_constraint(x, self.sharding)

    def layer(self, x: jax.Array, weights: Any, mask: jax.Array) -> jax.Array:
        """Attention and feed-forward of the same normalised input."""
        length, narrow = x.shape[1], {name: leaf.astype("bfloat16") for name, leaf in weights.items()}
        one_hot = (jnp.asarray(bucket_of(length))[None] == jnp.arange(BUCKETS)[:, None, None]).astype("bfloat16")
        bias = jnp.einsum("hb,bqk->hqk", narrow["positions"], one_hot)[None] + mask
        y = self.kept(root_mean_square(self.kept(x), weights["norm"], 1e-6))
        q, k, v = (self.kept(jnp.einsum("btd,dhk->bthk", y, narrow[name])) for name in "qkv")
        shares = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) + bias)
        mixed = self.kept(jnp.einsum("bhqk,bkhd->bqhd", shares, v))
        attended = self.kept(jnp.einsum("bqhd,hde->bqe", mixed, narrow["output"]))
        hidden = self.kept(jax.nn.relu(y @ narrow["up"]))
        return self.kept(self.kept(hidden @ narrow["down"]) + attended + x)

    def loss(self, weights: Any, batch: Any) -> jax.Array:
        """Mean cross-entropy over all places; embedding and logits share weights."""
        embedding, mask = weights["ends"]["embedding"], mask_of(batch)
        x = self.kept(embedding.astype("bfloat16")[batch["inputs"]])
        policy = jax.checkpoint_policies.checkpoint_dots_with_no_batch_dims
        x = scanned(lambda x, layer: self.layer(x, layer, mask), x, weights["layers"], policy)
        x = root_mean_square(x, weights["ends"]["norm"], 1e-6)
        logits = self.kept(jnp.dot(x, embedding.T) / WIDTH**0.5)
        chosen = jnp.take_along_axis(logits, batch["targets"][..., None], axis=-1)[..., 0]
        entropy = jax.nn.logsumexp(logits, axis=-1) - chosen
        return jnp.mean(entropy * (batch["segments"] != 0))


def work(devices: Sequence[Any], row: Row) -> Work:
    """Weights and batch divided over the same eight cores."""
    mesh = mesh_of(devices)
    weights = {"ends": placed_weights(ENDS, mesh), "layers": placed_weights(LAYER, mesh, LAYERS)}
    state = (weights, placed_moments(weights, mesh))
    function = stepper(Decoder(mesh).loss, decay=0.0, b2=0.999, clip=False)
    return Work(function, (*state, placed_batch(mesh, row.batch, row.sequence)), donate=(0, 1), kept=state)
