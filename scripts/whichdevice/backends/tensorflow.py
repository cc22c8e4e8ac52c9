"""TensorFlow: many training steps inside one `tf.function`, over data that lies on the device."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.backends.base import Backend, Means, TrainingLoop
from whichdevice.errors import StudyError
from whichdevice.quick_import import quick_imports
from whichdevice.records.schema import Request
from whichdevice.workloads.base import OperationWorkload, Split, TrainingWorkload


class TensorFlow(Backend):
    """TensorFlow on a CPU or on one GPU."""

    name = "tensorflow"
    loops = ("epoch",)
    precisions = ("float32", "tf32", "mixed_bfloat16", "bfloat16")  # mixed_float16 would need loss scaling

    @staticmethod
    def environment(request: Request, threads: int) -> dict[str, str]:
        """Quiet start, threads as counted, no GPU for a CPU run."""
        variables = {
            "KERAS_BACKEND": "tensorflow",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "TF_NUM_INTRAOP_THREADS": str(threads),
            "TF_NUM_INTEROP_THREADS": str(threads),
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        }
        if request.kind == "cpu":
            variables["CUDA_VISIBLE_DEVICES"] = "-1"
        return variables

    def start(self) -> None:
        """Import TensorFlow and Keras, set precision and seed, and find the device; threads come by environment."""
        with quick_imports():
            import keras
            import tensorflow
        self._tf = tensorflow
        self._refuse_what_is_not_there()
        kind = self.request.kind.upper()
        self._devices = tensorflow.config.list_logical_devices(kind)
        if not self._devices:
            raise StudyError(
                f"{self.request.device}: TensorFlow {tensorflow.__version__} finds no {kind}; see docs/devices.md"
            )
        tensorflow.config.experimental.enable_tensor_float_32_execution(self.request.precision == "tf32")
        keras.config.set_dtype_policy("float32" if self.request.precision == "tf32" else self.request.precision)
        keras.utils.set_random_seed(self.request.seed)

    def _refuse_what_is_not_there(self) -> None:
        if self.request.replicas > 1:
            raise StudyError(f"{self.request.device}: replicas {self.request.replicas}: this version runs on one")
        if self.request.precision == "tf32" and self.request.kind != "gpu":
            raise StudyError(f"{self.request.device}: tf32 exists on NVIDIA GPUs only; take float32 or mixed_bfloat16")

    def operation_loop(self, workload: OperationWorkload, random: np.random.Generator) -> "_Operation":
        """Operands in the precision asked for."""
        return _Operation(self._tf, workload, random, self._storage())

    def training_loop(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> "_Training":
        """Data on the device, one traced program for all steps."""
        return _Training(self._tf, workload, model, train, validation)

    def _storage(self) -> str:
        return {"tf32": "float32", "mixed_bfloat16": "bfloat16"}.get(self.request.precision, self.request.precision)

    def flags(self) -> Mapping[str, str]:
        """Threads, compiler and types: what TensorFlow says where it says it, else what was set."""
        from tensorflow.python.util import _pywrap_util_port

        variables = ("TF_XLA_FLAGS", "XLA_FLAGS", "TF_ENABLE_ONEDNN_OPTS", "TF_NUM_INTRAOP_THREADS")
        return {
            "jit_compile": str(bool(self._tf.config.optimizer.get_jit())).lower(),
            "onednn": str(bool(_pywrap_util_port.IsMklEnabled())).lower(),
            "tf32": str(self._tf.config.experimental.tensor_float_32_execution_enabled()).lower(),
            "type_compute": self._storage(),
            **{name: os.environ[name] for name in variables if name in os.environ},
        }

    def device(self) -> tuple[str | None, int]:
        """GPUs by TensorFlow's name; a CPU has the host's."""
        if self.request.kind == "cpu":
            return None, 1
        physical = self._tf.config.list_physical_devices(self.request.kind.upper())
        details = self._tf.config.experimental.get_device_details(physical[0])
        return details.get("device_name"), 1

    def peak_device_memory(self) -> int | None:
        """TensorFlow's own count on a GPU."""
        if self.request.kind != "gpu":
            return None
        return int(self._tf.config.experimental.get_memory_info("GPU:0")["peak"])

    @contextmanager
    def trace(self, folder: Path) -> Iterator[None]:
        """TensorFlow's profiler."""
        self._tf.profiler.experimental.start(str(folder))
        try:
            yield
        finally:
            self._tf.profiler.experimental.stop()
            for profile in folder.rglob("*.xplane.pb"):
                _without_host_name(profile)

    def is_out_of_memory(self, error: BaseException) -> bool:
        """MemoryError, or TensorFlow's allocator."""
        return isinstance(error, MemoryError | self._tf.errors.ResourceExhaustedError)


def _without_host_name(profile: Path) -> None:
    """TensorFlow names the host in the profile and in its file name; results name no host."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    space.ParseFromString(profile.read_bytes())
    space.ClearField("hostnames")
    profile.write_bytes(space.SerializeToString())
    profile.rename(profile.with_name("host.xplane.pb"))


class _Operation:
    """Dependent steps in a loop on the device."""

    def __init__(self, tf: Any, workload: OperationWorkload, random: np.random.Generator, dtype: str) -> None:
        state, operands = workload.operands(random)
        self._initial = self._state = tf.cast(state, dtype)
        placed = {name: tf.cast(array, dtype) for name, array in operands.items()}

        @tf.function
        def steps(state: Any, count: Any) -> Any:
            return tf.while_loop(
                lambda step, _: step < count, lambda step, value: (step + 1, workload.step(value, placed)), (0, state)
            )[1]

        self._steps, self._tf = steps, tf

    def run(self, steps: int) -> None:
        """Run from the initial state and wait: reading one number of the result back needs all of it.

        Each call starts anew, as rounding to 16 bits lets the chain grow over hundreds of thousands of steps.
        """
        self._state = self._steps(self._initial, self._tf.constant(steps))
        if not np.isfinite(float(self._state[0, 0])):
            raise FloatingPointError("the chain of products is no longer finite")


class _Training(TrainingLoop):
    """Gather, forward, backward and update, so many steps in one call."""

    def __init__(self, tf: Any, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> None:
        self._tf, self._workload, self._model = tf, workload, model
        self._validation = validation
        self._optimizer = workload.optimizer()
        self._optimizer.build(model.trainable_variables)
        model.optimizer = self._optimizer
        self._initial = [variable.numpy() for variable in self._variables()]
        place = {name: tf.constant(np.ascontiguousarray(array)) for name, array in train.arrays.items()}
        self._held_out = {name: tf.constant(np.ascontiguousarray(array)) for name, array in validation.arrays.items()}
        shape = tf.TensorSpec([None, workload.options.batch_size], tf.int32)
        self._steps = tf.function(lambda batches: self._train(place, batches), input_signature=[shape])
        self._judge = tf.function(self._judged, reduce_retracing=False)
        self._foretell = tf.function(lambda index: tf.cast(self._predicted(index), tf.float32))

    def _variables(self) -> list[Any]:
        return [*self._model.variables, *self._optimizer.variables]

    def _train(self, arrays: dict[str, Any], batches: Any) -> Any:
        tf = self._tf
        count = tf.shape(batches)[0]

        def body(step: Any, total: Any) -> tuple[Any, Any]:
            return step + 1, total + self._step(arrays, batches[step])

        sums = tf.while_loop(lambda step, _: step < count, body, (0, tf.zeros(2)))[1]
        return sums / tf.cast(count, tf.float32)

    def _step(self, arrays: dict[str, Any], index: Any) -> Any:
        inputs, target = self._workload.batch(arrays, index)
        with self._tf.GradientTape() as tape:
            prediction = self._model(inputs, training=True)
            loss = self._workload.loss(target, prediction)
        variables = self._model.trainable_variables
        self._optimizer.apply(tape.gradient(loss, variables), variables)
        return self._means(loss, target, prediction)

    def _means(self, loss: Any, target: Any, prediction: Any) -> Any:
        metric = 0.0 if self._workload.metric is None else self._workload.quality(target, prediction)
        return self._tf.stack([self._tf.cast(loss, "float32"), self._tf.cast(metric, "float32")])

    def _judged(self, index: Any) -> Any:
        inputs, target = self._workload.batch(self._held_out, index)
        prediction = self._model(inputs, training=False)
        return self._means(self._workload.loss(target, prediction), target, prediction)

    def _predicted(self, index: Any) -> Any:
        return self._model(self._workload.batch(self._held_out, index)[0], training=False)

    def _read(self, means: np.ndarray) -> Means:
        return Means(float(means[0]), None if self._workload.metric is None else float(means[1]))

    def run(self, batches: np.ndarray) -> Means:
        """Train and wait for the sums, which need every step."""
        return self._read(self._steps(self._tf.constant(batches)).numpy())

    def reset(self) -> None:
        """Write back what every variable held at first, random state included."""
        for variable, value in zip(self._variables(), self._initial, strict=True):
            variable.assign(value)

    def evaluate(self) -> Means:
        """Weighted by batch, so that the tail counts for what it is."""
        size = self._validation.batch_size or self._workload.options.batch_size
        sums = np.zeros(2)
        for start in range(0, self._validation.examples, size):
            index = np.arange(start, min(start + size, self._validation.examples), dtype=np.int32)
            sums += self._judge(self._tf.constant(index)).numpy() * len(index)
        return self._read(sums / self._validation.examples)

    def predict(self, index: np.ndarray) -> np.ndarray:
        """Predictions of the model as it stands."""
        return self._foretell(self._tf.constant(index)).numpy()

    def publish(self) -> None:
        """TensorFlow trains the Keras model's own variables: nothing to do."""
