"""ViT-B/16 as DeiT trains it: mixup and cutmix on the device, stochastic depth, float32 with the TPU's own products."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from benchmarks.tpu_model.adam import Moments, adam_updates, moments_of
from benchmarks.tpu_model.published import Row
from benchmarks.tpu_model.work import P, Work, mesh_of, placed, shape

LAYERS, WIDTH, HEADS, CLASSES, SIZE, PATCH = 12, 768, 12, 1000, 224, 16
HEAD, PATCHES = WIDTH // HEADS, SIZE // PATCH
DROP_PATH, SMOOTHING = 0.05, 0.1


def layer_shapes() -> dict[str, Any]:
    """One layer's weights."""
    projections = {name: {"kernel": shape(WIDTH, HEADS, HEAD), "bias": shape(HEADS, HEAD)} for name in "qkv"}
    norm = {"scale": shape(WIDTH), "bias": shape(WIDTH)}
    return projections | {
        "output": {"kernel": shape(HEADS, HEAD, WIDTH), "bias": shape(WIDTH)},
        "up": {"kernel": shape(WIDTH, 4 * WIDTH), "bias": shape(4 * WIDTH)},
        "down": {"kernel": shape(4 * WIDTH, WIDTH), "bias": shape(WIDTH)},
        "norm 1": norm,
        "norm 2": norm,
    }


def weight_shapes() -> dict[str, Any]:
    """86.6 million parameters."""
    return {
        "patches": {"kernel": shape(PATCH, PATCH, 3, WIDTH), "bias": shape(WIDTH)},
        "class token": shape(1, 1, WIDTH),
        "positions": shape(PATCHES, PATCHES, WIDTH),
        "layers": [layer_shapes() for _ in range(LAYERS)],
        "norm": {"scale": shape(WIDTH), "bias": shape(WIDTH)},
        "head": {"kernel": shape(WIDTH, CLASSES), "bias": shape(CLASSES)},
    }


def normalised(weights: Any, x: jax.Array) -> jax.Array:
    """Layer normalisation."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x).mean(-1, keepdims=True) - jnp.square(mean)
    return (x - mean) * (jax.lax.rsqrt(variance + 1e-6) * weights["scale"]) + weights["bias"]


def drop_path(x: jax.Array, key: jax.Array) -> jax.Array:
    """Leave out a branch for some images."""
    keep = jax.random.bernoulli(key, 1 - DROP_PATH, (x.shape[0], 1, 1))
    return jnp.where(keep, x / (1 - DROP_PATH), 0.0)


def attention(weights: Any, x: jax.Array) -> jax.Array:
    """All tokens see all tokens."""
    q, k, v = (jnp.einsum("btd,dhk->bthk", x, weights[n]["kernel"]) + weights[n]["bias"] for n in "qkv")
    shares = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q / HEAD**0.5, k))
    mixed = jnp.einsum("bhqk,bkhd->bqhd", shares, v)
    return jnp.einsum("bqhd,hde->bqe", mixed, weights["output"]["kernel"]) + weights["output"]["bias"]


def feed_forward(weights: Any, x: jax.Array) -> jax.Array:
    """Two products with GELU between them."""
    x = jax.nn.gelu(x @ weights["up"]["kernel"] + weights["up"]["bias"])
    return x @ weights["down"]["kernel"] + weights["down"]["bias"]


def logits(weights: Any, images: jax.Array, key: jax.Array) -> jax.Array:
    """[batch, 224, 224, 3] → [batch, 1000]."""
    x = jax.lax.conv_general_dilated(
        images, weights["patches"]["kernel"], (PATCH, PATCH), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    x = (x + weights["patches"]["bias"] + weights["positions"]).reshape(len(images), -1, WIDTH)
    x = jnp.concatenate((jnp.repeat(weights["class token"], len(images), 0), x), axis=1)
    for number, layer in enumerate(weights["layers"]):
        first, second = jax.random.split(jax.random.fold_in(key, number))
        x = x + drop_path(attention(layer, normalised(layer["norm 1"], x)), first)
        x = x + drop_path(feed_forward(layer, normalised(layer["norm 2"], x)), second)
    return normalised(weights["norm"], x)[:, 0] @ weights["head"]["kernel"] + weights["head"]["bias"]


def mixed(images: jax.Array, labels: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mixup or cutmix, both made and one chosen."""
    keys = jax.random.split(key, 6)
    ratio = jax.random.beta(keys[0], 0.8, 0.8)
    order = jax.random.permutation(keys[1], len(images))
    blended = ratio * images + (1 - ratio) * images[order], ratio * labels + (1 - ratio) * labels[order]
    side = (1 - jax.random.beta(keys[2], 1.0, 1.0)) ** 0.5
    column, row = jax.random.uniform(keys[3], (2,))
    place = jnp.linspace(0, 1, SIZE)
    inside = [(at - side / 2 <= place) & (place < at + side / 2) for at in (column, row)]
    outside = ~(inside[0][None, None, :, None] & inside[1][None, :, None, None])
    share, order = outside.mean((1, 2)), jax.random.permutation(keys[4], len(images))
    cut = outside * images + (1 - outside) * images[order], share * labels + (1 - share) * labels[order]
    first = jax.random.uniform(keys[5]) > 0.5
    return jnp.where(first, blended[0], cut[0]), jnp.where(first, blended[1], cut[1])


def loss(weights: Any, images: jax.Array, labels: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cross-entropy of smoothed, mixed labels, and the accuracies as the step reports them."""
    mixing, dropping = jax.random.split(key)
    pixels = jnp.moveaxis(images, 1, 3).astype("float32") / 255
    pixels = (pixels - jnp.array([0.485, 0.456, 0.406])) / jnp.array([0.229, 0.224, 0.225])
    target = jax.nn.one_hot(labels, CLASSES) * (1 - SMOOTHING) + SMOOTHING / CLASSES
    pixels, target = mixed(pixels, target, mixing)
    scores = logits(weights, pixels, dropping)
    found = jnp.take_along_axis(target == target.max(-1, keepdims=True), jax.lax.top_k(scores, 5)[1], axis=-1)
    accuracy = jnp.stack([found[:, 0].mean(), found.any(-1).mean()])
    return -(target * jax.nn.log_softmax(scores)).sum(-1).mean(), accuracy


def step(weights: Any, moments: Moments, keys: jax.Array, images: jax.Array, labels: jax.Array) -> Any:
    """One chip's share: gradients meaned over the chips."""
    key, following = jax.random.split(keys[0])
    (value, accuracy), gradients = jax.value_and_grad(loss, has_aux=True)(weights, images, labels, key)
    gradients, value, accuracy = jax.lax.pmean((gradients, value, accuracy), "batch")
    updates, moments = adam_updates(gradients, moments, weights, rate=1e-3, decay=0.05)
    return jax.tree.map(jnp.add, weights, updates), moments, following[None], value, accuracy


def work(devices: Sequence[Any], row: Row) -> Work:
    """Data parallel; images as the host sends them, uint8 [batch, 3, 224, 224]."""
    mesh, weights = mesh_of(devices), weight_shapes()
    state = placed((weights, moments_of(weights)), mesh)
    divided = (
        shape(len(devices), 2, dtype="uint32"),
        shape(row.batch, 3, SIZE, SIZE, dtype="uint8"),
        shape(row.batch, dtype="int32"),
    )
    batch = P("batch")
    function = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(P(), P(), batch, batch, batch),
        out_specs=(P(), P(), batch, P(), P()),
        check_vma=False,
    )
    return Work(function, (*state, *placed(divided, mesh, batch)), donate=(0, 1, 2))
