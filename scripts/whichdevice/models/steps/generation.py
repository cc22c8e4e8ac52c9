"""The two programs by which a Keras model on JAX generates tokens."""

from collections.abc import Callable
from typing import Any

from whichdevice.models.workloads.base import TrainingWorkload


def generation_programs(
    workload: TrainingWorkload, model: Any, length: int
) -> tuple[Callable[[Any, Any], tuple[Any, Any]], Callable[[Any, Any, Any, Any], tuple[Any, Any]]]:
    """Return two functions for `jax.jit`, of sequences of `length` tokens.

    Prefill: (weights, tokens [batch, prompt]) → (cache, next tokens [batch, 1]). Decode: (cache, weights, tokens
    [batch, 1], their position) → the same. The next token is the one with the highest score; weights are the values of
    the model's trainable and other variables.
    """
    import keras
    from jax import numpy as jnp

    how = workload.generation(model)
    variables = [*model.trainable_variables, *model.non_trainable_variables]

    def continued(weights: Any, tokens: Any, cache: Any, position: Any) -> tuple[Any, Any]:
        with keras.StatelessScope(state_mapping=list(zip(variables, weights, strict=True))):
            scores, filled = how.call(tokens, cache, position)
        return filled, jnp.argmax(scores, axis=-1).astype("int32")[:, None]

    def prefill(weights: Any, tokens: Any) -> tuple[Any, Any]:
        return continued(weights, tokens, how.empty_cache(tokens.shape[0], length), 0)

    def decode(cache: Any, weights: Any, tokens: Any, position: Any) -> tuple[Any, Any]:
        return continued(weights, tokens, cache, position)

    return prefill, decode
