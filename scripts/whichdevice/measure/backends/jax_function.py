"""JAX functions and Flax modules as they are, without Keras, in the loop of the Keras models on JAX."""

from collections.abc import Callable
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.measure.backends.base import Forward, TrainingLoop, backend
from whichdevice.measure.backends.jax import Jax
from whichdevice.measure.backends.keras_on_jax import JaxTraining, State, compiled_forward, types_of
from whichdevice.measure.backends.number_formats import storage_format
from whichdevice.measure.record import Types
from whichdevice.models.jax_model import JaxFile, JaxModel
from whichdevice.models.workloads.base import Arrays, Split, TrainingWorkload

LOSS_SCALE = 2.0**10  # in mixed float16


@backend("jax", framework="jax")
class JaxFunction(Jax):
    """JAX on CPU, GPUs and TPU VM, for models that are its own."""

    def start(self) -> None:
        """Import JAX and set precision; threads and devices come by environment."""
        import jax

        self._jax = jax
        jax.config.update("jax_default_matmul_precision", self._matmul_precision())

    def initialise(self) -> None:
        """Take the devices."""
        self._take()

    def training_loop(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> TrainingLoop:
        """A compiled step over data on the device."""
        assert isinstance(workload, JaxFile)
        size, replicas = self.request.batch_size, self.request.replicas
        if size % replicas:
            raise StudyError(f"batch_size {size} cannot be divided over {replicas} replicas")
        model.optimizer = workload.optimizer()
        self._loop = FunctionTraining(self._jax, self._mesh, workload, model, train, validation)
        return self._loop

    def forward_pass(self, model: Any) -> Forward:
        """One compiled program with the weights on every replica."""
        self._predicts = True
        return compiled_forward(self._jax, self._mesh, as_stored(model), prediction(model))

    def types(self) -> Types:
        """Return the formats of the compiled step once there is one, until then as asked for."""
        texts = ("", "")
        if self._loop is not None:
            texts = self._loop.step.written, self._loop.step.executed
        return types_of(self.request.precision, self.request.kind, storage_format(self.request.precision), *texts)


def as_stored(model: JaxModel) -> tuple[Any, Any]:
    """Trained values and others; floats in bfloat16 where everything is."""
    import jax

    state: tuple[Any, Any] = jax.tree.map(model.workload.typed, (model.trained, model.held))
    return state


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

    if model.step is not None:
        return own_step(model.step)
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


def own_step(run: Callable[..., Any]) -> Callable[[State, Any, Any], tuple[State, Any]]:
    """A script's own step as such a function; its loss and its optimiser are inside."""
    from jax import numpy as jnp

    def step(state: State, inputs: Any, _: Any) -> tuple[State, Any]:
        trained, held, loss = run(state.trainable, state.non_trainable, inputs)
        return State(trained, held, state.optimizer), jnp.asarray([loss, 0.0], "float32")

    return step


def gathered(workload: JaxFile, step: Callable[..., Any]) -> Callable[[State, Arrays, Any], tuple[State, Any]]:
    """The step on the examples `index` of arrays."""

    def on_index(state: State, arrays: Arrays, index: Any) -> tuple[State, Any]:
        stepped: tuple[State, Any] = step(state, *workload.batch(arrays, index))
        return stepped

    return on_index


class FunctionTraining(JaxTraining):
    """The loop of a Keras model, around the function's own step."""

    _workload: JaxFile

    def _single(self) -> Any:
        return gathered(self._workload, function_step(self._workload, self._model, self._model.optimizer))

    def _inferred(self, state: State, inputs: Any) -> tuple[Any, list[Any]]:
        computed = self._workload.computed
        return self._model.apply(computed(state.trainable), state.non_trainable, computed(inputs), False)[0], []

    def _predicted(self, state: State, arrays: Any, index: Any) -> Any:
        output, _ = self._inferred(state, self._workload.batch(arrays, index)[0])
        return self._jax.numpy.asarray(self._jax.tree.leaves(output)[0], "float32")

    def _held(self) -> State:
        trained, held = as_stored(self._model)
        state = State(trained, held, self._model.optimizer.init(trained))
        return self._copy(self._jax.device_put(state, self._whole))

    def publish(self) -> None:
        """The trained values are the model's; a copy, as the next step gives the state's own memory away."""
        first = self._jax.tree.map(lambda leaf: leaf.addressable_data(0), self._state)
        copied = self._jax.tree.map(lambda leaf: self._jax.numpy.array(leaf, copy=True), first)
        self._model.trained, self._model.held = copied.trainable, copied.non_trainable

    def adopt(self) -> None:
        """Nothing but steps changes the values: nothing to do."""

