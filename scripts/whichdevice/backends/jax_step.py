"""One training step as a pure function of its state: what the JAX backend runs and what the TPU compiler compiles."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from whichdevice.backends.model_losses import build_late_parts, loss_and_metric, total_loss
from whichdevice.errors import StudyError
from whichdevice.workloads.base import Arrays, TrainingWorkload
from whichdevice.workloads.model_file import overridden
from whichdevice.workloads.shapes import in_mode


class State(NamedTuple):
    """Everything that a step changes, as lists of JAX arrays in Keras' order."""

    trainable: list[Any]
    non_trainable: list[Any]  # batch statistics and the states of random generators
    optimizer: list[Any]
    metrics: list[Any] = []  # noqa: RUF012 - never changed; of a model's own step


Step = Callable[[State, Arrays, Any], tuple[State, Any]]


def state_of(model: Any, optimizer: Any, own: bool = False) -> State:
    """The values that a built model and a built optimiser hold now; `own`: and the metrics of its own step."""
    return State(
        [variable.value for variable in model.trainable_variables],
        [variable.value for variable in model.non_trainable_variables],
        [variable.value for variable in optimizer.variables],
        [variable.value for variable in model.metrics_variables] if own else [],
    )


def write_back(state: State, model: Any, optimizer: Any) -> None:
    """Put a state into the Keras variables."""
    for variables, values in (
        (model.trainable_variables, state.trainable),
        (model.non_trainable_variables, state.non_trainable),
        (optimizer.variables, state.optimizer),
    ):
        for variable, value in zip(variables, values, strict=False):  # a step of its own may build more, later
            variable.assign(value)


def training_step(workload: TrainingWorkload, model: Any, optimizer: Any) -> Step:
    """A pure function (state, arrays, index int32 [batch]) → (state, [loss, metric] float32 [2])."""
    import jax
    import keras
    from jax import numpy as jnp

    if workload.own_step(model):
        return own_training_step(workload, model)

    def scaled_loss(trainable: list[Any], state: State, inputs: Any, target: Any) -> tuple[Any, Any]:
        prediction, non_trainable, own = model.stateless_call(
            trainable, state.non_trainable, inputs, return_losses=True, **in_mode(model, True)
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


def own_training_step(workload: TrainingWorkload, model: Any) -> Step:
    """The same of the model's own `train_step`; loss and metric are those that Keras reports so far."""
    from jax import numpy as jnp

    if "train_step" in overridden(model) and len(inspect.signature(model.train_step).parameters) < 2:
        raise StudyError(
            "the model's own train_step takes data alone, as TensorFlow and PyTorch have it: JAX, whose program the "
            "forecasts compile, needs train_step(state, data)"
        )

    def step(state: State, arrays: Arrays, index: Any) -> tuple[State, Any]:
        logs, after = model.train_step(tuple(state), workload.batch(arrays, index))
        means = jnp.stack([jnp.asarray(each, "float32") for each in loss_and_metric(logs, workload.metric)])
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
