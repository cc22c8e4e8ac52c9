"""JAX functions and Flax modules as they are, without Keras, in the loop of the Keras models on JAX."""

from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.measure.backends.base import Forward, TrainingLoop, backend
from whichdevice.measure.backends.jax import Jax
from whichdevice.measure.backends.keras_on_jax import JaxTraining, compiled_forward, types_of
from whichdevice.measure.backends.number_formats import storage_format
from whichdevice.measure.record import Types
from whichdevice.models.jax_model import JaxFile, JaxModel
from whichdevice.models.steps.jax_function import function_step, gathered, prediction
from whichdevice.models.steps.keras_on_jax import State
from whichdevice.models.workloads.base import Split, TrainingWorkload


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

