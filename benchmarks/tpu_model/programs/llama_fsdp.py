"""Llama 3.1 8B and Mistral 7B as MaxText trains them on eight v6e: Pallas attention, activations in host memory."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
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
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh, NamedSharding

LAYERS, WIDTH, HEADS, KEY_HEADS, HEAD, HIDDEN = 32, 4096, 32, 8, 128, 14336
BLOCK = 2048  # of the attention kernel, every way
ROTARY_BASE = {"llama31_8b_v6e_maxtext": 500_000, "mistral_7b_v6e_maxtext": 10_000}
VOCABULARY = {"llama31_8b_v6e_maxtext": 128_256, "mistral_7b_v6e_maxtext": 32_000}
OFFLOADED = ["decoder_layer_input", "query_proj", "key_proj", "value_proj", "out_proj"]
# The recipe's own; with the default the kernel's blocks do not fit.
OPTIONS = {"xla_tpu_scoped_vmem_limit_kib": "98304"}
LAYER = {
    "norm 1": Weight((WIDTH,), None),
    "norm 2": Weight((WIDTH,), None),
    "q": Weight((WIDTH, HEADS, HEAD), 0),
    "k": Weight((WIDTH, KEY_HEADS, HEAD), 0),
    "v": Weight((WIDTH, KEY_HEADS, HEAD), 0),
    "output": Weight((HEADS, HEAD, WIDTH), 2),
    "gate": Weight((WIDTH, HIDDEN), 0),
    "up": Weight((WIDTH, HIDDEN), 0),
    "down": Weight((HIDDEN, WIDTH), 1),
}


def splash(q: jax.Array, k: jax.Array, v: jax.Array, segments: jax.Array) -> jax.Array:
    """Causal attention of one device's share; q, k, v are [batch, heads, sequence, head]."""
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernels
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    block = min(BLOCK, q.shape[2])
    sizes = kernels.BlockSizes(
        **{f"block_{name}": block for name in ("q", "kv", "kv_compute", "q_dkv", "kv_dkv", "kv_dkv_compute")},
        use_fused_bwd_kernel=True,
    )
    mask = masks.MultiHeadMask([masks.CausalMask((q.shape[2], q.shape[2]))] * q.shape[1])
    kernel = kernels.make_splash_mha(mask=mask, head_shards=1, q_seq_shards=1, block_sizes=sizes)
    return jax.vmap(kernel)(q, k, v, segment_ids=kernels.SegmentIds(segments, segments))


def rotated(x: jax.Array, positions: jax.Array, base: int) -> jax.Array:
    """Rotary embedding by halves; x is [batch, sequence, heads, head]."""
    angle = positions[:, :, None, None] / base ** (2 * jnp.arange(HEAD // 2) / HEAD)
    cosine, sine = jnp.cos(angle).astype(x.dtype), jnp.sin(angle).astype(x.dtype)
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


class Llama:
    """The loss, with activations kept divided along the batch."""

    def __init__(self, mesh: Mesh, vocabulary: int, rotary_base: int) -> None:
        self.mesh, self.vocabulary, self.rotary_base = mesh, vocabulary, rotary_base

    def kept(self, x: jax.Array) -> jax.Array:
        """Divided along the batch."""
        return jax.lax.with_sharding_constraint(x, NamedSharding(self.mesh, P("batch")))

    def attention(self, y: jax.Array, narrow: Any, batch: Any) -> jax.Array:
        """32 query heads share 8 key heads."""
        q, k, v = (self.kept(jnp.einsum("btd,dhk->bthk", y, narrow[name])) for name in "qkv")
        q = checkpoint_name(rotated(q, batch["positions"], self.rotary_base), "query_proj")
        k = checkpoint_name(rotated(k, batch["positions"], self.rotary_base), "key_proj")
        v = checkpoint_name(v, "value_proj")
        spec = P("batch")
        attend = jax.shard_map(splash, mesh=self.mesh, in_specs=(spec,) * 4, out_specs=spec, check_vma=False)
        mixed = attend(*(each.swapaxes(1, 2) for each in (q, k, v)), batch["segments"]).swapaxes(1, 2)
        return checkpoint_name(self.kept(jnp.einsum("bqhd,hde->bqe", self.kept(mixed), narrow["output"])), "out_proj")

    def layer(self, x: jax.Array, weights: Any, batch: Any) -> jax.Array:
        """Attention, then a gated feed-forward."""
        narrow = {name: leaf.astype("bfloat16") for name, leaf in weights.items()}
        x = checkpoint_name(self.kept(x), "decoder_layer_input")
        x = x + self.attention(self.kept(root_mean_square(x, weights["norm 1"], 1e-5)), narrow, batch)
        y = self.kept(root_mean_square(x, weights["norm 2"], 1e-5))
        hidden = self.kept(jax.nn.silu(y @ narrow["gate"]) * (y @ narrow["up"]))
        return self.kept(x + hidden @ narrow["down"])

    def loss(self, weights: Any, batch: Any) -> jax.Array:
        """Cross-entropy over the real tokens; the embedding is a product with one-hot rows."""
        ends = weights["ends"]
        one_hot = (batch["inputs"][..., None] == jnp.arange(self.vocabulary)).astype("bfloat16")
        x = self.kept(one_hot @ ends["embedding"].astype("bfloat16"))
        policy = jax.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[],
            names_which_can_be_offloaded=OFFLOADED,
            offload_src="device",
            offload_dst="pinned_host",
        )
        x = scanned(partial(self._layer, batch), x, weights["layers"], policy)
        x = root_mean_square(x, ends["norm"], 1e-5)
        logits = self.kept(x @ ends["logits"].astype("bfloat16")).astype("float32")
        target = jax.nn.one_hot(batch["targets"], self.vocabulary)
        entropy = jax.nn.logsumexp(logits, axis=-1) - (logits * target).sum(-1)
        real = batch["segments"] != 0
        return (entropy * real).sum() / (real.sum() + 1e-8)

    def _layer(self, batch: Any, x: jax.Array, weights: Any) -> jax.Array:
        return self.layer(x, weights, batch)


def work(devices: Sequence[Any], row: Row) -> Work:
    """Weights and batch divided over the same eight chips."""
    mesh, vocabulary = mesh_of(devices), VOCABULARY[row.id]
    ends = {"embedding": Weight((vocabulary, WIDTH), 1), "logits": Weight((WIDTH, vocabulary), 0)}
    ends["norm"] = Weight((WIDTH,), None)
    weights = {"ends": placed_weights(ends, mesh), "layers": placed_weights(LAYER, mesh, LAYERS)}
    state = (weights, placed_moments(weights, mesh))
    function = stepper(Llama(mesh, vocabulary, ROTARY_BASE[row.id]).loss, decay=0.1, b2=0.95, clip=True)
    batch = placed_batch(mesh, row.batch, row.sequence)
    return Work(function, (*state, batch), donate=(0, 1), kept=state, options=OPTIONS)
