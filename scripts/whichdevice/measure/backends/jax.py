"""JAX on CPU, GPUs and TPU VM: compiled training steps over data that lies on the device.

Several replicas are a mesh of devices that share each batch.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError, lacks_memory
from whichdevice.base.processes import quick_imports
from whichdevice.measure.backends.base import (
    INSTALL_HINT,
    Backend,
    Forward,
    Generator,
    OperationLoop,
    TrainingLoop,
    backend,
    built_optimizer,
    huge_pages,
)
from whichdevice.measure.backends.fit_loop import FitLoop
from whichdevice.measure.backends.jax_generation import JaxGenerator
from whichdevice.measure.backends.keras_on_jax import LOOP_STEPS, JaxTraining, StepPrograms, keras_forward, types_of
from whichdevice.measure.machine import gpu, tpu
from whichdevice.measure.machine.gpu import cuda_variables
from whichdevice.measure.record import Request, Types
from whichdevice.models.workloads.base import OperationWorkload, Split, TrainingWorkload

SHOWN = (
    "XLA_FLAGS",
    "JAX_PLATFORMS",
    "PJRT_NPROC",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "LIBTPU_INIT_ARGS",
    "GLIBC_TUNABLES",
)
# Replicas that share few cores meet late on a busy host; XLA would abort the process after 40 s.
MEETING = "--xla_cpu_collective_call_terminate_timeout_seconds=900"
# XLA's threads for virtual CPU devices, by replica: one waits in every collective operation, and where all wait none is
# left to bring the last replica there. 8 replicas on one core or two: 2 and 10 threads hung, 32 did not.
THREADS_A_REPLICA = 4
PLATFORMS = {"cpu": "cpu", "gpu": "cuda,cpu", "tpu": "tpu,cpu"}  # `fit` is fed from the CPU


def device_variables(request: Request, threads: int) -> dict[str, str]:
    """Only the devices asked for; memory is taken as it is needed, so that its peak tells something."""
    variables = {"JAX_PLATFORMS": PLATFORMS[request.kind], "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if request.kind == "gpu":
        return variables | cuda_variables(request.replicas)
    variables["CUDA_VISIBLE_DEVICES"] = "-1"
    if request.kind == "cpu":  # virtual devices that share the cores: a rehearsal, no speed-up
        variables["JAX_NUM_CPU_DEVICES"] = str(request.replicas)
    if request.kind == "cpu" and request.replicas > 1:
        variables["XLA_FLAGS"] = " ".join([*os.environ.get("XLA_FLAGS", "").split(), MEETING])
        variables["PJRT_NPROC"] = str(max(threads, THREADS_A_REPLICA * request.replicas))
    return variables


def take_devices(jax: Any, request: Request) -> list[Any]:
    """Return as many devices as replicas; raises StudyError, in one line, where they are not available."""
    try:
        available = jax.devices(request.kind)
    except RuntimeError as error:
        raise StudyError(f"{request.device}: {_why_none(jax, request, str(error))}") from error
    if len(available) < request.replicas:
        what = {"cpu": "CPU devices", "gpu": "GPUs", "tpu": "TPU cores"}[request.kind]
        raise StudyError(
            f"{request.device}: JAX {jax.__version__} finds {len(available)} {what}, {request.replicas} replicas asked"
        )
    return available[: request.replicas]


def _why_none(jax: Any, request: Request, message: str) -> str:
    if request.kind == "gpu":
        return _why_no_gpu(jax, request.replicas, message)
    if not _installed("libtpu"):
        return f"JAX {jax.__version__} has no libtpu; {INSTALL_HINT.format('jax-tpu')}"
    if "already in use" in message or "lockfile" in message:
        return "the TPU is in use by another process; end that one first"
    return tpu.absent_reason(request.replicas) or f"JAX {jax.__version__} cannot use the TPU: {_line(message)}"


def _why_no_gpu(jax: Any, replicas: int, message: str) -> str:
    plugins = [name for name in ("jax-cuda13-plugin", "jax-cuda12-plugin") if _installed(name)]
    if not plugins:
        return f"JAX {jax.__version__} is installed without CUDA; {INSTALL_HINT.format('gpu')}"
    if (absent := gpu.absent_reason(replicas)) is not None:
        return absent
    return (
        f"JAX {jax.__version__} with {plugins[0]} cannot use the GPU with driver {gpu.describe().driver}: take a "
        f"driver of that CUDA or newer, or CUDA's libraries ({INSTALL_HINT.format('gpu')}); {_line(message)}"
    )


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _line(message: str) -> str:
    """JAX's own reason without its advice."""
    return message.partition("\n")[0].partition(" (set JAX_PLATFORMS")[0].removeprefix("Unable to initialize ")


@backend("jax")
class Jax(Backend):
    """JAX with Keras."""

    name = "jax"
    package = "jax"
    precisions = ("float32", "tf32", "mixed_bfloat16", "mixed_float16", "bfloat16")
    activation_copies = 2.9  # convolutions 2.7, a decoder 0.5; the compiled step says exactly what it needs

    @staticmethod
    def environment(request: Request, threads: int) -> dict[str, str]:
        """Quiet start, devices as asked, threads as counted, every compilation a real one, no path in a program."""
        return {
            "KERAS_BACKEND": "jax",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "JAX_ENABLE_COMPILATION_CACHE": "false",
            "JAX_HLO_SOURCE_FILE_CANONICALIZATION_REGEX": ".*/",  # programs name the files that they came from
            "PJRT_NPROC": str(threads),
            **device_variables(request, threads),
            **huge_pages(request),
        }

    def __init__(self, request: Request, threads: int) -> None:
        super().__init__(request, threads)
        self._loop: JaxTraining | JaxOperation | None = None
        self._predicts = False  # until a forward pass is built

    def start(self) -> None:
        """Import JAX and Keras, set precision and seed; threads and devices come by environment."""
        with quick_imports("tensorflow", "torch"):
            import jax
            import keras

            keras.utils.set_random_seed(self.request.seed)  # Keras would import TensorFlow to seed it, too
        self._jax, self._keras = jax, keras
        jax.config.update("jax_default_matmul_precision", self._matmul_precision())
        keras.config.set_dtype_policy("float32" if self.request.precision == "tf32" else self.request.precision)

    def _matmul_precision(self) -> str | None:
        """Return the format of float32 factors: JAX takes TF32 on GPUs and bfloat16 on TPUs by itself."""
        precision = self.request.precision
        if self.request.kind == "tpu" and precision != "float32":
            return None  # mixed precision there is bfloat16 products everywhere
        return "tensorfloat32" if precision == "tf32" else "highest"

    def initialise(self) -> None:
        """Take the devices; JAX starts its client here and a TPU its system."""
        if self.request.precision == "tf32" and self.request.kind != "gpu":
            raise StudyError(f"{self.request.device}: precision tf32: only GPUs have it")
        self._take()
        if self.request.loop == "fit" and self.request.replicas > 1:
            names = self._keras.distribution.list_devices(self.request.kind)[: self.request.replicas]
            self._keras.distribution.set_distribution(self._keras.distribution.DataParallel(devices=names))

    def _take(self) -> None:
        self._devices = take_devices(self._jax, self.request)
        self._mesh = self._jax.sharding.Mesh(np.array(self._devices), ("replica",))

    def operation_loop(self, workload: OperationWorkload, random: np.random.Generator) -> OperationLoop:
        """Operands in the precision asked for, on every replica."""
        dtype = self._keras.config.dtype_policy().compute_dtype
        self._loop = JaxOperation(self._jax, self._mesh, workload, random, dtype)
        return self._loop

    def training_loop(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> TrainingLoop:
        """`epoch`: data on the device, compiled steps; `fit`: fed from the host."""
        size, replicas = self.request.batch_size, self.request.replicas
        if size % replicas:
            raise StudyError(f"batch_size {size} cannot be divided over {replicas} replicas")
        model.optimizer = built_optimizer(self.request, workload, model)
        fit = self.request.loop == "fit"
        # XLA's CPU compiler leaves gradients of convolutions in a naive form inside loops: slower.
        loops = self.request.kind != "cpu"
        data = Split({}, train.examples) if fit else train
        self._loop = JaxTraining(self._jax, self._mesh, workload, model, data, validation, loops)
        return FitLoop(workload, model, self._loop, self._feed(workload, train)) if fit else self._loop

    def forward_pass(self, model: Any) -> Forward:
        """`epoch`: one compiled program; `fit`: Keras' own, which it compiles the same way."""
        self._predicts = True
        return model.predict_on_batch if self.request.loop == "fit" else keras_forward(self._jax, self._mesh, model)

    def generator(self, workload: TrainingWorkload, model: Any, tokens: np.ndarray) -> Generator:
        """Two compiled programs; replicas share the batch."""
        self._predicts = True
        return JaxGenerator(self._jax, self._mesh, workload, model, tokens)

    def _feed(self, workload: TrainingWorkload, train: Split) -> Callable[[np.ndarray], Any]:
        """Batches made by the host's processor, one after the other."""
        host = self._jax.devices("cpu")[0]
        arrays = self._jax.device_put({name: np.asarray(array) for name, array in train.arrays.items()}, host)
        batch = self._jax.jit(workload.batch)

        def feed(batches: np.ndarray) -> Iterator[Any]:
            for index in batches:
                yield self._jax.tree.map(np.asarray, batch(arrays, self._jax.device_put(index, host)))

        return feed

    def flags(self) -> Mapping[str, str]:
        """Compiler, precision and threads: what JAX says, and what was set in its environment."""
        config = self._jax.config
        return {
            "jit_compile": str(not config.jax_disable_jit).lower(),
            "compilation_cache": str(bool(config.jax_enable_compilation_cache)).lower(),
            "matmul_precision": str(config.jax_default_matmul_precision),
            "devices": str(len(self._devices)),
            **{name: os.environ[name] for name in SHOWN if name in os.environ},
        }

    def types(self) -> Types:
        """Return the formats of the compiled step once there is one, until then as asked for."""
        texts = ("", "")
        if self._loop is not None:
            programs = self._loop.programs
            texts = (programs.written, programs.executed) if programs.written else self._small_product()
        elif self._predicts:
            texts = self._small_product()
        operation = isinstance(self._loop, JaxOperation)
        policy = self._keras.config.dtype_policy()
        storage = policy.compute_dtype if operation else policy.variable_dtype
        return types_of(self.request.precision, self.request.kind, storage, *texts)

    def _small_product(self) -> tuple[str, str]:
        """HLO of one product, written and executed, to tell of programs that Keras or `jax.jit` keeps to itself."""
        factor = self._jax.numpy.ones((64, 64), self._keras.config.dtype_policy().compute_dtype)
        lowered = self._jax.jit(self._jax.numpy.matmul).lower(factor, factor)
        return lowered.as_text("hlo"), lowered.compile().as_text()

    def device(self) -> tuple[str | None, int]:
        """Return JAX's name of the device; a CPU has the host's, and virtual devices are one CPU."""
        if self.request.kind == "cpu":
            return None, 1
        return self._devices[0].device_kind, len(self._devices)

    def peak_device_memory(self) -> int | None:
        """JAX's own count, of the device that needed most."""
        if self.request.kind == "cpu":
            return None
        peaks = [(device.memory_stats() or {}).get("peak_bytes_in_use") for device in self._devices]
        return max((int(peak) for peak in peaks if peak is not None), default=None)

    def is_out_of_memory(self, error: BaseException) -> bool:
        """MemoryError, XLA that finds no room for a buffer or a program, or a CUDA library that cannot even begin."""
        return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and lacks_memory(error))


class JaxOperation:
    """Each replica carries its own state; the operands lie on all of them.

    The states lie one after the other along the first axis: with an axis of their own XLA's CPU compiler would copy
    them at each step.
    """

    def __init__(
        self, jax: Any, mesh: Any, workload: OperationWorkload, random: np.random.Generator, dtype: str
    ) -> None:
        jnp, spec = jax.numpy, jax.sharding.PartitionSpec
        state, operands = workload.operands(random)
        split = jax.sharding.NamedSharding(mesh, spec("replica"))
        whole = jax.sharding.NamedSharding(mesh, spec())
        self._operands = {name: jax.device_put(jnp.asarray(array, dtype), whole) for name, array in operands.items()}
        self._initial = jax.device_put(jnp.asarray(state, dtype), whole)

        def start(value: Any) -> Any:
            return jnp.concatenate([value] * mesh.size)

        def step(states: Any, held: Any) -> Any:
            return jax.lax.optimization_barrier(workload.step(states, held))  # no two steps in one pass

        everywhere = jax.shard_map(step, mesh=mesh, in_specs=(spec("replica"), spec()), out_specs=spec("replica"))
        self._start = jax.jit(start, out_shardings=split)
        self._bounded = workload.bounded
        self._states: Any = None
        self.programs = StepPrograms(jax, everywhere, loops=True, in_place=workload.bounded)
        first = (slice(None, None, state.shape[0]), *[0] * (state.ndim - 1))  # one number of each replica
        self._corner = jax.jit(lambda states: states[first], out_shardings=whole)
        jax.block_until_ready((self._operands, self._initial))  # the way to the device is no part of the first step

    def run(self, steps: int) -> None:
        """Run and wait: reading one number of each replica's result needs all of it."""
        states = self.states_after(steps)
        if not np.isfinite(np.asarray(self._corner(states), np.float32)).all():
            raise FloatingPointError("the chain of products is no longer finite")

    def states_after(self, steps: int) -> Any:
        """The state of every replica after so many steps, one after the other; returns before the device is done.

        Each call starts from the initial state, as rounding to 16 bits lets a chain grow over hundreds of thousands of
        steps; a bounded one works in place and goes on where it was.
        """
        if self._states is None:
            self._states = self._start(self._initial)
        states = self._states
        for done in range(0, steps, LOOP_STEPS):
            states = self.programs.run(states, self._operands, min(LOOP_STEPS, steps - done))
        if self._bounded:
            self._states = states
        return states
