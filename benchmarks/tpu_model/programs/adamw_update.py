"""AdamW's update of a small language model in bfloat16: returns updates and state, overwrites nothing."""

from collections.abc import Sequence
from typing import Any

import jax
from benchmarks.tpu_model.adam import Moments, adam_updates, moments_of
from benchmarks.tpu_model.published import Row
from benchmarks.tpu_model.work import Work, mesh_of, placed, shape

WIDTH, VOCABULARY, LAYERS, HEADS, KEY_HEADS, HEAD, HIDDEN = 1024, 32768, 8, 4, 1, 256, 3072


def weights() -> Any:
    """163.6 million parameters."""
    layer = {
        "query": (WIDTH, HEADS, HEAD),
        "key": (WIDTH, KEY_HEADS, HEAD),
        "value": (WIDTH, KEY_HEADS, HEAD),
        "output": (HEADS, HEAD, WIDTH),
        "gate": (WIDTH, HIDDEN),
        "up": (WIDTH, HIDDEN),
        "down": (HIDDEN, WIDTH),
    }
    dims = {"embedding": (VOCABULARY, WIDTH), "logits": (WIDTH, VOCABULARY), "layers": [layer] * LAYERS}
    return jax.tree.map(lambda each: shape(*each, dtype="bfloat16"), dims, is_leaf=lambda each: isinstance(each, tuple))


def update(gradients: Any, moments: Moments, parameters: Any) -> tuple[Any, Moments]:
    """Learning rate 1e-4, weight decay .1."""
    return adam_updates(gradients, moments, parameters, rate=1e-4, decay=0.1, b2=0.95)


def work(devices: Sequence[Any], row: Row) -> Work:
    """Gradients have the weights' shapes."""
    mesh, parameters = mesh_of(devices), weights()
    return Work(update, placed((parameters, moments_of(parameters), parameters), mesh))
