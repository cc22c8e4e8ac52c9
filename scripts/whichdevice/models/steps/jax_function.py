"""Steps of JAX functions and Flax modules, without Keras."""

from collections.abc import Callable
from typing import Any

from whichdevice.models.jax_model import JaxFile, JaxModel
from whichdevice.models.steps.keras_on_jax import State
from whichdevice.models.workloads.base import Arrays

LOSS_SCALE = 2.0**10  # in mixed float16


def prediction(model: JaxModel) -> Callable[[Any, Any], Any]:
    """A function ((trained, held), inputs) → float32 predictions."""
    import jax
    from jax import numpy as jnp

    def predicted(state: tuple[Any, Any], inputs: Any) -> Any:
        trained, held = state
        typed = jax.tree.map(model.workload.typed, inputs)
        output, _ = model.apply(model.workload.computed(trained), held, model.workload.computed(typed), False)
        return jnp.asarray(jax.tree.leaves(output)[0], "float32")

    return predicted


def function_step(workload: JaxFile, model: JaxModel, optimizer: Any) -> Callable[[State, Any, Any], tuple[State, Any]]:
    """A pure function (state, inputs, target) → (state, [loss, metric] float32 [2])."""
    import jax
    from jax import numpy as jnp

    scale = LOSS_SCALE if workload.options.precision == "mixed_float16" else 1.0

    def judged(trained: Any, held: Any, inputs: Any, target: Any) -> Any:
        output, changed = model.apply(workload.computed(trained), held, workload.computed(inputs), True)
        loss = workload.loss(target, output)
        kept = jax.tree.map(lambda new, old: new.astype(old.dtype), changed, held)
        return loss * scale, (loss, output, kept)

    def step(state: State, inputs: Any, target: Any) -> tuple[State, Any]:
        differentiate = jax.value_and_grad(judged, has_aux=True)
        (_, (loss, output, held)), gradients = differentiate(state.trainable, state.non_trainable, inputs, target)
        if scale != 1.0:
            gradients = jax.tree.map(lambda gradient: gradient / scale, gradients)
        updates, kept = optimizer.update(gradients, state.optimizer, state.trainable)
        trained = jax.tree.map(lambda value, change: (value + change).astype(value.dtype), state.trainable, updates)
        metric = 0.0 if workload.metric is None else workload.quality(target, output)
        means = jnp.stack([jnp.asarray(mean, "float32") for mean in (loss, metric)])
        return State(trained, held, kept), means

    return step


def gathered(workload: JaxFile, step: Callable[..., Any]) -> Callable[[State, Arrays, Any], tuple[State, Any]]:
    """The step on the examples `index` of arrays."""

    def on_index(state: State, arrays: Arrays, index: Any) -> tuple[State, Any]:
        stepped: tuple[State, Any] = step(state, *workload.batch(arrays, index))
        return stepped

    return on_index
