"""JAX on CPU, GPUs and TPU VM: compiled training steps over data that lies on the device.

Several replicas are a mesh of devices that share each batch.
"""

import os
from collections.abc import Mapping
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
from whichdevice.measure.backends.keras_on_jax import CompiledStep, JaxTraining, keras_forward, shardings, types_of
from whichdevice.measure.machine import gpu, tpu
from whichdevice.measure.machine.gpu import cuda_variables
from whichdevice.measure.record import Request, Types
from whichdevice.models.steps.generation import generation_programs
from whichdevice.models.workloads.base import OperationWorkload, Split, TrainingWorkload, prompt_length

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
PLATFORMS = {"cpu": "cpu", "gpu": "cuda,cpu", "tpu": "tpu,cpu"}
LOOP_STEPS = 32  # of a single operation: a call costs the host more than a small product costs a GPU


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
        noun = {"cpu": "CPU devices", "gpu": "GPUs", "tpu": "TPU cores"}[request.kind]
        raise StudyError(
            f"{request.device}: JAX {jax.__version__} finds {len(available)} {noun}, {request.replicas} replicas asked"
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
    activation_copies = 3.3  # convolutions 3.1, a decoder 0.9; the compiled step says exactly what it needs

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
        """Return the format of float32 factors: JAX takes TF32 on GPUs and bfloat16 on TPUs by default."""
        precision = self.request.precision
        if self.request.kind == "tpu" and precision != "float32":
            return None  # mixed precision there is bfloat16 products everywhere
        return "tensorfloat32" if precision == "tf32" else "highest"

    def initialise(self) -> None:
        """Take the devices; JAX starts its client here and a TPU its system."""
        if self.request.precision == "tf32" and self.request.kind != "gpu":
            raise StudyError(f"{self.request.device}: precision tf32: only GPUs have it")
        self._take()

    def _take(self) -> None:
        self._devices = take_devices(self._jax, self.request)
        self._mesh = self._jax.sharding.Mesh(np.array(self._devices), ("replica",))

    def operation_loop(self, workload: OperationWorkload, random: np.random.Generator) -> OperationLoop:
        """Operands in the precision asked for, on every replica."""
        dtype = self._keras.config.dtype_policy().compute_dtype
        self._loop = JaxOperation(self._jax, self._mesh, workload, random, dtype)
        return self._loop

    def training_loop(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> TrainingLoop:
        """A compiled step over data on the device."""
        size, replicas = self.request.batch_size, self.request.replicas
        if size % replicas:
            raise StudyError(f"batch_size {size} cannot be divided over {replicas} replicas")
        model.optimizer = built_optimizer(self.request, workload, model)
        self._loop = JaxTraining(self._jax, self._mesh, workload, model, train, validation)
        return self._loop

    def forward_pass(self, model: Any) -> Forward:
        """One compiled program."""
        self._predicts = True
        return keras_forward(self._jax, self._mesh, model)

    def generator(self, workload: TrainingWorkload, model: Any, tokens: np.ndarray) -> Generator:
        """Two compiled programs; replicas share the batch."""
        self._predicts = True
        return JaxGenerator(self._jax, self._mesh, workload, model, tokens)

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
            step = self._loop.step
            texts = (step.written, step.executed) if step.written else self._small_product()
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
        whole, split = shardings(jax, mesh)
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
        # A product cannot be written over its own factor: XLA would copy it there after each step. Two steps a turn of
        # the loop leave none to copy. Its length is fixed, as a GPU waits for its host at each turn of another one.
        turn = 1 if workload.bounded else 2

        def many(states: Any, held: Any) -> Any:
            return jax.lax.fori_loop(0, LOOP_STEPS, lambda _, kept: everywhere(kept, held), states, unroll=turn)

        self.step = CompiledStep(jax, everywhere, workload.bounded)
        self._many = CompiledStep(jax, many, workload.bounded)
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
        self.step.compile(states, self._operands)
        self._many.compile(states, self._operands)  # now, and not within a timed window
        for _ in range(steps // LOOP_STEPS):
            states = self._many(states, self._operands)
        for _ in range(steps % LOOP_STEPS):
            states = self.step(states, self._operands)
        if self._bounded:
            self._states = states
        return states


class JaxGenerator(Generator):
    """Generates on one device, or on several that share the batch: the prompt in one program, then token after token.

    Both programs are what a forecast counts. The cache of keys and values has a fixed length, and a decoding step
    overwrites the one that it is given.
    """

    def __init__(self, jax: Any, mesh: Any, workload: TrainingWorkload, model: Any, tokens: np.ndarray) -> None:
        whole, rows = shardings(jax, mesh)
        batch, self._length = tokens.shape
        self._prompt = prompt_length(self._length)
        prefill, decode = generation_programs(workload, model, self._length)
        self._jax = jax
        self._weights = jax.device_put(
            [variable.value for variable in (*model.trainable_variables, *model.non_trainable_variables)], whole
        )
        self._tokens = jax.device_put(tokens[:, : self._prompt], rows)
        self._prefill = jax.jit(prefill, out_shardings=(rows, rows))
        self._decode = jax.jit(decode, donate_argnums=(0,), out_shardings=(rows, rows))
        self._position = self._length
        self._cache: Any = None
        self._next: Any = None
        empty = jax.eval_shape(lambda: workload.generation(model).empty_cache(batch, self._length))
        self.cache_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(empty))

    def prefill(self) -> None:
        """Fill a new cache."""
        self._cache = self._next = None  # the old one goes first
        self._cache, self._next = self._jax.block_until_ready(self._prefill(self._weights, self._tokens))
        self._position = self._prompt

    def decode(self, steps: int) -> None:
        """When all places are filled, those behind the prompt are used again: each token costs the same."""
        for _ in range(steps):
            place = np.int32(self._position)
            self._cache, self._next = self._decode(self._cache, self._weights, self._next, place)
            self._position = self._position + 1 if self._position + 1 < self._length else self._prompt
        self._jax.block_until_ready((self._cache, self._next))
