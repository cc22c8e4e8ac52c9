"""Keras layers on this project's CPU kernels and on Keras' own: `python cpu_kernels_behaviour.py BACKEND RESULT`."""

import json
import sys
from pathlib import Path

import numpy as np

POOLS = {  # input shape, pool size, padding
    "halves": ((4, 6, 8, 3), 2, "valid"),
    "leftovers": ((4, 7, 9, 3), 2, "valid"),
    "oblong": ((2, 6, 4, 5), (3, 2), "valid"),
    "same": ((2, 6, 6, 3), 2, "same"),
    "same with padding": ((2, 7, 7, 3), 2, "same"),
}


def main() -> None:
    name, result = sys.argv[1], Path(sys.argv[2])
    found = {"jax": jax_found, "torch": torch_found}[name]()
    result.write_text(json.dumps(found))


def pool_inputs(shape) -> np.ndarray:
    """Few levels, so that windows hold equal largest values."""
    return np.random.default_rng(0).integers(0, 3, shape).astype(np.float32)


def jax_found() -> dict:
    import jax
    import keras
    from keras import layers

    from whichdevice.backends.jax_cpu_kernels import quick_kernels

    def pooled(layer, inputs):
        value, back = jax.vjp(lambda x: layer(x), inputs)
        return value, back(jax.random.normal(jax.random.key(0), value.shape))[0]

    pools = {}
    for name, (shape, size, padding) in POOLS.items():
        layer, inputs = layers.MaxPooling2D(size, padding=padding), jax.numpy.asarray(pool_inputs(shape))
        layer(inputs)
        own = pooled(layer, inputs)
        with quick_kernels(jax):
            ours = pooled(layer, inputs)
        pools[name] = [bool(np.array_equal(first, second)) for first, second in zip(own, ours, strict=True)]
    dropout, ones = layers.Dropout(0.3), jax.numpy.ones(300_001)
    dropout(ones, training=True)
    with quick_kernels(jax):
        masks = [np.asarray(dropout(ones, training=True)) for _ in range(2)]
        gradient = np.asarray(jax.grad(lambda x: dropout(x, training=True).sum())(ones))
        shared = np.asarray(layers.Dropout(0.5, noise_shape=(64, 1))(jax.numpy.ones((64, 8)), training=True))
    back = keras.src.backend.jax.nn.max_pool.__module__
    return {"pools": pools, **dropout_facts(masks, gradient, shared), "restored": back == "keras.src.backend.jax.nn"}


def torch_found() -> dict:
    import keras
    import torch
    from keras import layers

    from whichdevice.backends.torch_cpu_kernels import quick_kernels

    def pooled(layer, values):
        inputs = torch.tensor(values, requires_grad=True)
        outputs = layer(inputs)
        outputs.backward(torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0)))
        return outputs.detach().numpy(), inputs.grad.numpy()

    pools = {}
    for name, (shape, size, padding) in POOLS.items():
        layer, values = layers.MaxPooling2D(size, padding=padding), pool_inputs(shape)
        own = pooled(layer, values)
        with quick_kernels():
            ours = pooled(layer, values)
        pools[name] = [bool(np.array_equal(first, second)) for first, second in zip(own, ours, strict=True)]
    images, convolution = torch.rand(2, 6, 6, 1), layers.Conv2D(4, 2, padding="same")
    own = convolution(images).detach().numpy()
    dropout, ones = layers.Dropout(0.3), torch.ones(300_001, requires_grad=True)
    with quick_kernels():
        pools["convolution"] = [bool(np.allclose(own, convolution(images).detach().numpy(), atol=1e-6))]
        masks = [dropout(ones, training=True).detach().numpy() for _ in range(2)]
        dropout(ones, training=True).sum().backward()
        shared = layers.Dropout(0.5, noise_shape=(64, 1))(torch.ones(64, 8), training=True).numpy()
    back = keras.src.backend.torch.nn.max_pool.__module__
    facts = dropout_facts(masks, ones.grad.numpy(), shared)
    return {"pools": pools, **facts, "restored": back == "keras.src.backend.torch.nn"}


def dropout_facts(masks, gradient, shared) -> dict:
    neighbours = np.corrcoef((masks[0][:300_000].reshape(-1, 4) == 0).T)
    return {
        "dropped": float((masks[0] == 0).mean()),
        "kept": sorted({float(value) for value in masks[0]} | {float(value) for value in gradient}),
        "repeated": float((masks[0] == masks[1]).mean()),
        "neighbours": float(np.abs(neighbours - np.eye(4)).max()),
        "shared": bool((shared == shared[:, :1]).all()),
    }


if __name__ == "__main__":
    main()
