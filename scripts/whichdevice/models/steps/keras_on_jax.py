"""A training step of a Keras model on JAX: a pure function of its state."""

from collections.abc import Callable
from typing import Any, NamedTuple

from whichdevice.models.model_file import require_jax_step
from whichdevice.models.shapes import in_mode
from whichdevice.models.steps.losses import build_late_parts, loss_and_metric, total_loss
from whichdevice.models.workloads.base import Arrays, TrainingWorkload


class State(NamedTuple):
    """All that a step changes, as lists of JAX arrays in Keras' order."""

    trainable: list[Any]
    non_trainable: list[Any]  # batch statistics and the states of random generators
    optimizer: list[Any]
    metrics: list[Any] = []  # noqa: RUF012 - never changed; of a model's own step


TrainStep = Callable[[State, Arrays, Any], tuple[State, Any]]


def training_step(workload: TrainingWorkload, model: Any, optimizer: Any) -> TrainStep:
    """A pure function (state, arrays, index int32 [batch]) → (state, [loss, metric] float32 [2])."""
    import jax
    import keras
    from jax import numpy as jnp

    if workload.own_step(model):
        return own_training_step(workload, model)

    def scaled_loss(trainable: list[Any], state: State, inputs: Any, target: Any) -> tuple[Any, Any]:
        prediction, non_trainable, added = model.stateless_call(
            trainable, state.non_trainable, inputs, return_losses=True, **in_mode(model, True)
        )
        loss = total_loss(workload.loss(target, prediction), added)
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


def own_training_step(workload: TrainingWorkload, model: Any) -> TrainStep:
    """The model's own `train_step` as such a function; loss and metric are those that Keras reports so far."""
    from jax import numpy as jnp

    require_jax_step(model)

    def step(state: State, arrays: Arrays, index: Any) -> tuple[State, Any]:
        logs, after = model.train_step(tuple(state), workload.batch(arrays, index))
        means = jnp.stack([jnp.asarray(mean, "float32") for mean in loss_and_metric(logs, workload.metric)])
        return State(*after), means

    return step


def build_traced(workload: TrainingWorkload, model: Any, arrays: Arrays, batch_size: int, values: bool) -> None:
    """Build what the model's own step makes late, by a trace; without `values` its variables get none."""
    import jax
    import keras

    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), arrays)
    index = jax.ShapeDtypeStruct((batch_size,), "int32")

    def build(arrays: Arrays, index: Any) -> None:
        build_late_parts(workload, model, workload.batch(arrays, index))

    with keras.StatelessScope(initialize_variables=values):
        jax.eval_shape(build, shapes, index)
