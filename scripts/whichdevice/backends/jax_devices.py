"""Which of JAX's devices a run takes, and the environment variables that give it these."""

import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from whichdevice.backends.base import ENVIRONMENT
from whichdevice.errors import StudyError
from whichdevice.machine import gpu, tpu
from whichdevice.machine.gpu import cuda_variables
from whichdevice.records.schema import Request

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
    """As many devices as replicas; raises StudyError, in one line, where they are not there."""
    try:
        found = jax.devices(request.kind)
    except RuntimeError as error:
        raise StudyError(f"{request.device}: {_why_none(jax, request, str(error))}") from error
    if len(found) < request.replicas:
        what = {"cpu": "CPU devices", "gpu": "GPUs", "tpu": "TPU cores"}[request.kind]
        raise StudyError(
            f"{request.device}: JAX {jax.__version__} finds {len(found)} {what}, {request.replicas} replicas asked"
        )
    return found[: request.replicas]


def _why_none(jax: Any, request: Request, message: str) -> str:
    if request.kind == "gpu":
        return _why_no_gpu(jax, request.replicas, message)
    if not _installed("libtpu"):
        return f"JAX {jax.__version__} has no libtpu; {ENVIRONMENT.format('cpu')}"
    if "already in use" in message or "lockfile" in message:
        return "the TPU is in use by another process; end that one first"
    return tpu.absent_reason(request.replicas) or f"JAX {jax.__version__} cannot use the TPU: {_line(message)}"


def _why_no_gpu(jax: Any, replicas: int, message: str) -> str:
    plugins = [name for name in ("jax-cuda13-plugin", "jax-cuda12-plugin") if _installed(name)]
    if not plugins:
        return f"JAX {jax.__version__} is installed without CUDA; {ENVIRONMENT.format('gpu')}"
    if (absent := gpu.absent_reason(replicas)) is not None:
        return absent
    return (
        f"JAX {jax.__version__} with {plugins[0]} cannot use the GPU with driver {gpu.describe().driver}: take a "
        f"driver of that CUDA or newer, or CUDA's libraries ({ENVIRONMENT.format('gpu')}); {_line(message)}"
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
