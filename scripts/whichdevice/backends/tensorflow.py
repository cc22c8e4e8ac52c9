"""TensorFlow on CPU, GPUs and TPU VM: many training steps inside one `tf.function`, over data that lies on the device.

Several replicas are a tf.distribute strategy: MirroredStrategy, or TPUStrategy for a TPU's cores.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.backends.base import Backend, Forward, OperationLoop, TrainingLoop, says_no_memory
from whichdevice.backends.fit_loop import FitLoop
from whichdevice.backends.host_memory import huge_pages
from whichdevice.backends.model_losses import check_own_step, needs_optimizer
from whichdevice.backends.number_formats import emulated, product_format
from whichdevice.backends.profile_files import without_host_name
from whichdevice.backends.tensorflow_devices import deal, take_devices
from whichdevice.backends.tensorflow_loss_scale import scaling_loss
from whichdevice.backends.tensorflow_operation import TensorFlowOperation
from whichdevice.backends.tensorflow_training import TensorFlowTraining, traced_forward
from whichdevice.host.nvml import cuda_variables
from whichdevice.quick_import import quick_imports
from whichdevice.records.facts import Types
from whichdevice.records.request import Request
from whichdevice.workloads.base import OperationWorkload, Split, TrainingWorkload

PREFETCHED = 2  # batches


class TensorFlow(Backend):
    """TensorFlow with Keras."""

    name = "tensorflow"
    package = "tensorflow"
    precisions = ("float32", "tf32", "mixed_bfloat16", "mixed_float16", "bfloat16")

    @staticmethod
    def environment(request: Request, threads: int) -> dict[str, str]:
        """Quiet start, threads as counted, as many GPUs as replicas, memory taken as it is needed."""
        variables = {
            "KERAS_BACKEND": "tensorflow",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "TF_NUM_INTRAOP_THREADS": str(threads),
            "TF_NUM_INTEROP_THREADS": str(threads),
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
            **huge_pages(request),
        }
        return variables | (
            cuda_variables(request.replicas) if request.kind == "gpu" else {"CUDA_VISIBLE_DEVICES": "-1"}
        )

    def __init__(self, request: Request, threads: int) -> None:
        super().__init__(request, threads)
        self._xla = self._operates = False  # until a loop is built

    def start(self) -> None:
        """Import TensorFlow and Keras, set precision and seed; threads come by environment."""
        with quick_imports():
            import keras
            import tensorflow
        self._tf = tensorflow
        tensorflow.config.experimental.enable_tensor_float_32_execution(self._short_products())
        keras.config.set_dtype_policy("float32" if self.request.precision == "tf32" else self.request.precision)
        keras.utils.set_random_seed(self.request.seed)

    def _short_products(self) -> bool:
        """Whether float32 factors may be shortened: to TF32 on GPUs, and by the same switch to bfloat16 on TPUs."""
        precision = self.request.precision
        return precision == "tf32" or (self.request.kind == "tpu" and precision != "float32")

    def initialise(self) -> None:
        """Take the devices; TensorFlow makes its context here and a TPU is reset."""
        self._strategy, self._names = take_devices(self._tf, self.request)

    def scope(self) -> AbstractContextManager[Any]:
        """The strategy's."""
        return self._strategy.scope()

    def operation_loop(self, workload: OperationWorkload, random: np.random.Generator) -> OperationLoop:
        """Operands in the precision asked for, on every replica."""
        self._xla, self._operates = self.request.kind == "tpu", True
        return TensorFlowOperation(self._tf, self._strategy, workload, random, self._policy().compute_dtype)

    def training_loop(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> TrainingLoop:
        """`epoch`: data on the device, one traced program for all steps; `fit`: fed by tf.data from the host."""
        with self._strategy.scope():
            model.optimizer = self._optimizer(workload, model)
            if self.request.loop == "epoch":
                return self._loop(workload, model, train, validation)
            inner = self._loop(workload, model, Split({}, train.examples), validation)
            loop = FitLoop(workload, model, inner, self._feed(workload, train))
            if not workload.own_step(model):
                model.jit_compile = self._jit_compile(model)
            return loop

    def forward_pass(self, model: Any) -> Forward:
        """`epoch`: one traced program; `fit`: Keras' own, which it traces the same way."""
        jit = self._jit_compile(model)
        self._xla = jit or self.request.kind == "tpu"
        if self.request.loop == "epoch":
            return traced_forward(self._tf, self._strategy, model, jit)
        model.jit_compile = jit
        return model.predict_on_batch

    def _optimizer(self, workload: TrainingWorkload, model: Any) -> Any:
        """Built; in float16 it scales the loss, as Keras' `compile` would have it."""
        if workload.own_step(model):
            check_own_step(model, self.request.loop)
            if needs_optimizer(model):
                model.optimizer.build(model.trainable_variables)
            return model.optimizer
        optimizer = workload.optimizer()
        if self.request.precision == "mixed_float16":
            optimizer = scaling_loss(self._tf, optimizer)
        optimizer.build(model.trainable_variables)
        return optimizer

    def _loop(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> TensorFlowTraining:
        kind = self.request.kind
        jit = bool(model.jit_compile) if workload.own_step(model) else self._jit_compile(model)
        self._xla = jit or kind == "tpu"
        gather_uint8 = jit or kind != "gpu"
        return TensorFlowTraining(self._tf, self._strategy, workload, model, train, validation, jit, gather_uint8)

    def _jit_compile(self, model: Any) -> bool:
        """Steps by XLA: on GPUs where Keras' "auto" has it; CPUs are slower so, and TPUStrategy compiles by itself."""
        return self.request.kind == "gpu" and bool(model.jit_compile)

    def _feed(self, workload: TrainingWorkload, train: Split) -> Callable[[np.ndarray], Any]:
        with self._tf.device("CPU"):
            arrays = {name: self._tf.constant(array) for name, array in train.arrays.items()}

        options = self._tf.data.Options()
        options.autotune.enabled = False  # its thread sleeps, and a pipeline waits up to seconds for it when it closes

        def pipeline(batches: np.ndarray) -> Any:
            indices = self._tf.data.Dataset.from_tensor_slices(batches)
            return indices.map(lambda index: workload.batch(arrays, index)).prefetch(PREFETCHED).with_options(options)

        mirrored = isinstance(self._strategy, self._tf.distribute.MirroredStrategy)
        return (lambda batches: deal(self._tf, self._strategy, pipeline, batches)) if mirrored else pipeline

    def _policy(self) -> Any:
        import keras

        return keras.config.dtype_policy()

    def flags(self) -> Mapping[str, str]:
        """Threads, compiler and types: what TensorFlow says where it says it, else what was set."""
        variables = ("TF_XLA_FLAGS", "XLA_FLAGS", "TF_NUM_INTRAOP_THREADS", "GLIBC_TUNABLES")
        return {
            "jit_compile": str(self._xla or bool(self._tf.config.optimizer.get_jit())).lower(),
            "TF_ENABLE_ONEDNN_OPTS": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "not set"),
            "tf32": str(self._tf32()).lower(),
            "strategy": type(self._strategy).__name__.strip("_"),
            **{name: os.environ[name] for name in variables if name in os.environ},
        }

    def _tf32(self) -> bool:
        return self._tf.config.experimental.tensor_float_32_execution_enabled()

    def types(self) -> Types:
        """As Keras' policy and TensorFlow's switch stand; sums are float32 and rounded when stored."""
        policy = self._policy()
        product = "tf32" if policy.compute_dtype == "float32" and self._tf32() else policy.compute_dtype
        unavailable = emulated(self.request.kind, product_format(self.request.precision))
        storage = policy.compute_dtype if self._operates else policy.variable_dtype
        return Types(storage=storage, product=product, sum="float32", emulated=unavailable)

    def device(self) -> tuple[str | None, int]:
        """GPUs by TensorFlow's name; CPU and TPU have the host's. Virtual CPU devices are one CPU."""
        if self.request.kind != "gpu":
            return None, 1 if self.request.kind == "cpu" else len(self._names)
        physical = self._tf.config.list_physical_devices("GPU")
        return self._tf.config.experimental.get_device_details(physical[0]).get("device_name"), len(self._names)

    def peak_device_memory(self) -> int | None:
        """TensorFlow's own count, of the device that needed most."""
        if self.request.kind == "cpu":
            return None
        try:
            return max(int(self._tf.config.experimental.get_memory_info(name)["peak"]) for name in self._names)
        except ValueError:  # a runtime that does not count
            return None

    @contextmanager
    def trace(self, folder: Path) -> Iterator[None]:
        """TensorFlow's profiler."""
        self._tf.profiler.experimental.start(str(folder))
        try:
            yield
        finally:
            self._tf.profiler.experimental.stop()
            without_host_name(folder)

    def is_out_of_memory(self, error: BaseException) -> bool:
        """MemoryError, TensorFlow's allocator, or a CUDA library that cannot even begin."""
        if isinstance(error, MemoryError | self._tf.errors.ResourceExhaustedError):
            return True
        return isinstance(error, self._tf.errors.OpError | RuntimeError) and says_no_memory(error)
