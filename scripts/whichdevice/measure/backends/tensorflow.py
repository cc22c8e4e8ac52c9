"""TensorFlow on CPU, GPUs and TPU VM: many training steps inside one `tf.function`, over data that lies on the device.

Several replicas are a tf.distribute strategy: MirroredStrategy, or TPUStrategy for a TPU's cores.
"""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError, lacks_memory
from whichdevice.base.processes import quick_imports
from whichdevice.measure.backends.base import (
    INSTALL_HINT,
    Backend,
    Forward,
    OperationLoop,
    TrainingLoop,
    backend,
    built_optimizer,
    huge_pages,
)
from whichdevice.measure.backends.keras_on_tensorflow import TensorFlowTraining, place, traced_forward
from whichdevice.measure.backends.number_formats import emulated, product_format
from whichdevice.measure.machine import gpu
from whichdevice.measure.machine.gpu import cuda_variables
from whichdevice.measure.record import Request, Types
from whichdevice.models.workloads.base import OperationWorkload, Split, TrainingWorkload


@backend("tensorflow")
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
        with quick_imports("jax", "scipy"):  # TensorFlow imports them for converters and checks of sparse input
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
        """One traced program for all steps, over data on the device."""
        kind = self.request.kind
        jit = bool(model.jit_compile) if workload.own_step(model) else self._jit_compile(model)
        self._xla = jit or kind == "tpu"
        with self._strategy.scope():
            model.optimizer = built_optimizer(self.request, workload, model, partial(scaling_loss, self._tf))
            return TensorFlowTraining(
                self._tf, self._strategy, workload, model, train, validation, jit, gather_uint8=jit or kind != "gpu"
            )

    def forward_pass(self, model: Any) -> Forward:
        """One traced program."""
        jit = self._jit_compile(model)
        self._xla = jit or self.request.kind == "tpu"
        return traced_forward(self._tf, self._strategy, model, jit)

    def _jit_compile(self, model: Any) -> bool:
        """Return whether Keras compiles steps: on GPUs by its "auto"; CPUs are slower so, TPUStrategy does anyway."""
        return self.request.kind == "gpu" and bool(model.jit_compile)

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
        """Return the formats of Keras' policy and TensorFlow's switch; sums are float32 and rounded when stored."""
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

    def is_out_of_memory(self, error: BaseException) -> bool:
        """MemoryError, TensorFlow's allocator, or a CUDA library that cannot even begin."""
        if isinstance(error, MemoryError | self._tf.errors.ResourceExhaustedError):
            return True
        return isinstance(error, self._tf.errors.OpError | RuntimeError) and lacks_memory(error)


def scaling_loss(tf: Any, optimizer: Any) -> Any:
    """Keras' LossScaleOptimizer that skips a step when any replica's gradients overflow.

    Keras 3.15 asks the first replica alone and else applies the infinite sum, after which all weights are lost.
    """
    import keras

    class AnyReplica(keras.optimizers.LossScaleOptimizer):
        def check_finite(self, grads: list[Any]) -> Any:
            overflows = tf.cast(tf.logical_not(super().check_finite(grads)), tf.float32)
            return tf.equal(tf.distribute.get_replica_context().all_reduce("SUM", overflows), 0.0)

    return AnyReplica(optimizer)


def take_devices(tf: Any, request: Request) -> tuple[Any, list[str]]:
    """The strategy and the names of the devices, as many as replicas; raises StudyError where they are not there."""
    if request.kind == "tpu":
        return _tpu_cores(tf, request)
    names = _cpus(tf, request) if request.kind == "cpu" else _gpus(tf, request)
    return (tf.distribute.MirroredStrategy(names) if len(names) > 1 else tf.distribute.get_strategy()), names


def _cpus(tf: Any, request: Request) -> list[str]:
    """Several replicas are virtual devices that share the cores: a rehearsal, no speed-up."""
    if request.replicas > 1:
        physical = tf.config.list_physical_devices("CPU")[0]
        virtual = [tf.config.LogicalDeviceConfiguration()] * request.replicas
        tf.config.set_logical_device_configuration(physical, virtual)
    return [device.name for device in tf.config.list_logical_devices("CPU")]


def _gpus(tf: Any, request: Request) -> list[str]:
    names = [device.name for device in tf.config.list_logical_devices("GPU")]
    if len(names) < request.replicas:
        raise StudyError(f"{request.device}: {_why_no_gpu(tf, request.replicas, len(names))}")
    return names[: request.replicas]


def _why_no_gpu(tf: Any, replicas: int, number: int) -> str:
    build, version = tf.sysconfig.get_build_info(), tf.__version__
    if not build["is_cuda_build"]:
        return f"TensorFlow {version} is built without CUDA; {INSTALL_HINT.format('gpu')}"
    if (absent := gpu.absent_reason(replicas)) is not None:
        return absent
    return (
        f"TensorFlow {version} finds {number} of {replicas} GPUs with driver {gpu.describe().driver}; it is built for "
        f"CUDA {build['cuda_version']} and cuDNN {build['cudnn_version']}: take a driver of that CUDA or newer, or "
        f"CUDA's libraries ({INSTALL_HINT.format('gpu')})"
    )


def _tpu_cores(tf: Any, request: Request) -> tuple[Any, list[str]]:
    """One replica takes one core, as several take several; initialising resets the TPU and takes seconds."""
    cluster = tf.distribute.cluster_resolver.TPUClusterResolver("local")
    try:
        topology = tf.tpu.experimental.initialize_tpu_system(cluster)
    except tf.errors.OpError as error:
        reason = str(error).partition("\n")[0].partition(": No OpKernel")[0]
        raise StudyError(
            f"{request.device}: TensorFlow {tf.__version__} cannot use a TPU here ({reason}); it needs a TPU VM and "
            f"tensorflow-tpu: {INSTALL_HINT.format('tpu')}"
        ) from error
    names = [device.name for device in tf.config.list_logical_devices("TPU")]
    if len(names) < request.replicas:
        raise StudyError(f"{request.device}: {len(names)} TPU cores found on this host, {request.replicas} asked")
    assignment = tf.tpu.experimental.DeviceAssignment.build(topology, num_replicas=request.replicas)
    strategy = tf.distribute.TPUStrategy(cluster, experimental_device_assignment=assignment)
    return strategy, names[: request.replicas]


class TensorFlowOperation:
    """The chain of steps; operands are kept in the format `dtype`."""

    def __init__(
        self, tf: Any, strategy: Any, workload: OperationWorkload, random: np.random.Generator, dtype: str
    ) -> None:
        start, operands = workload.operands(random)
        number = tf.as_dtype(dtype).as_numpy_dtype
        # TensorFlow takes three times as long for an array that repeats one row as for a whole one.
        initial = place(tf, strategy, {"state": np.ascontiguousarray(start, number)})["state"]
        placed = place(tf, strategy, {name: np.ascontiguousarray(array, number) for name, array in operands.items()})

        def chain(count: Any) -> Any:
            first = (0, tf.convert_to_tensor(initial))
            last = tf.while_loop(lambda step, _: step < count, lambda s, v: (s + 1, workload.step(v, placed)), first)
            return tf.cast(last[1][0, 0], "float32")

        self._chains = tf.function(lambda count: strategy.run(chain, (count,)), autograph=False)
        self._tf, self._strategy = tf, strategy
        self.ends: list[float] = []

    def run(self, steps: int) -> None:
        """Run from the initial state and wait: one number of the result, read back, needs all of it.

        Each call starts anew, as rounding to 16 bits lets the chain grow over hundreds of thousands of steps.
        """
        ends = self._strategy.experimental_local_results(self._chains(self._tf.constant(steps)))
        self.ends = [float(end) for end in ends]
        if not np.isfinite(self.ends).all():
            raise FloatingPointError("the chain of products is no longer finite")
