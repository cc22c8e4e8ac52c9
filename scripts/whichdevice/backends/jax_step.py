"""One training step as a pure function of its state: what the JAX backend runs and what the TPU compiler compiles."""

from collections.abc import Callable
from typing import Any, NamedTuple

from whichdevice.backends.model_losses import total_loss
from whichdevice.workloads.base import Arrays, TrainingWorkload


class State(NamedTuple):
    """Everything that a step changes, as lists of JAX arrays in Keras' order."""

    trainable: list[Any]
    non_trainable: list[Any]  # batch statistics and the states of random generators
    optimizer: list[Any]


Step = Callable[[State, Arrays, Any], tuple[State, Any]]


def state_of(model: Any, optimizer: Any) -> State:
    """The values that a built model and a built optimiser hold now."""
    return State(
        [variable.value for variable in model.trainable_variables],
        [variable.value for variable in model.non_trainable_variables],
        [variable.value for variable in optimizer.variables],
    )


def write_back(state: State, model: Any, optimizer: Any) -> None:
    """Put a state into the Keras variables."""
    for variables, values in (
        (model.trainable_variables, state.trainable),
        (model.non_trainable_variables, state.non_trainable),
        (optimizer.variables, state.optimizer),
    ):
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def training_step(workload: TrainingWorkload, model: Any, optimizer: Any) -> Step:
    """A pure function (state, arrays, index int32 [batch]) → (state, [loss, metric] float32 [2])."""
    import jax
    import keras
    from jax import numpy as jnp

    def scaled_loss(trainable: list[Any], state: State, inputs: Any, target: Any) -> tuple[Any, Any]:
        prediction, non_trainable, own = model.stateless_call(
            trainable, state.non_trainable, inputs, training=True, return_losses=True
        )
        loss = total_loss(workload.loss(target, prediction), own)
        known = list(zip(optimizer.variables, state.optimizer, strict=True))
        with keras.StatelessScope(state_mapping=known):  # loss scaling of float16 reads the optimiser's scale
            scaled = optimizer.scale_loss(loss)
        return scaled, (loss, prediction, non_trainable)

    def step(state: State, arrays: Arrays, index: Any) -> tuple[State, Any]:
        inputs, target = workload.batch(arrays, index)
        differentiate = jax.value_and_grad(scaled_loss, has_aux=True)
        (_, (loss, prediction, non_trainable)), gradients = differentiate(state.trainable, state, inputs, target)
        trainable, held = optimizer.stateless_apply(state.optimizer, gradients, state.trainable)
        metric = 0.0 if workload.metric is None else workload.quality(target, prediction)
        means = jnp.stack([jnp.asarray(loss, "float32"), jnp.asarray(metric, "float32")])
        return State(trainable, non_trainable, held), means

    return step
