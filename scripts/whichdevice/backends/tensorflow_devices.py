"""Which of TensorFlow's devices a run takes, and the strategy that spreads a run over them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from whichdevice.backends.base import ENVIRONMENT
from whichdevice.errors import StudyError
from whichdevice.machine import gpu
from whichdevice.records.schema import Request


def take_devices(tf: Any, request: Request) -> tuple[Any, list[str]]:
    """The strategy and the names of the devices, as many as replicas; raises StudyError where they are not there."""
    if request.kind == "tpu":
        return _tpu_cores(tf, request)
    names = _cpus(tf, request) if request.kind == "cpu" else _gpus(tf, request)
    return (tf.distribute.MirroredStrategy(names) if len(names) > 1 else tf.distribute.get_strategy()), names


def place(tf: Any, strategy: Any, arrays: dict[str, np.ndarray], gather_uint8: bool = True) -> dict[str, Any]:
    """A copy of the arrays on every replica: variables, as a TPU fetches constants from its host at every call.

    TensorFlow 2.21 gathers uint8 on a GPU from a plain variable and by XLA, else copies all of it to the host at each
    step: on several GPUs without `gather_uint8` such arrays become float16, which holds 0 to 255 exactly.
    """
    placed = {}
    for name, array in arrays.items():
        widened = array.dtype == np.uint8 and not gather_uint8 and strategy.num_replicas_in_sync > 1
        value = np.asarray(array, np.float16 if widened else array.dtype)
        with strategy.scope():
            placed[name] = tf.Variable(value, trainable=False, name=name)
    return placed


def deal(tf: Any, strategy: Any, pipeline: Callable[[np.ndarray], Any], batches: np.ndarray) -> Any:
    """A pipeline for each replica over its share of the batches, int32 [steps, batch]; only MirroredStrategy has that.

    Keras would make one for all, whose iterators, tuning themselves, take up to seconds to close (TensorFlow 2.21).
    """
    shares = batches.reshape(len(batches), strategy.num_replicas_in_sync, -1)
    each = tf.distribute.InputOptions(
        experimental_fetch_to_device=False,
        experimental_replication_mode=tf.distribute.InputReplicationMode.PER_REPLICA,
    )

    def of_replica(context: Any) -> Any:
        options = tf.data.Options()
        options.autotune.enabled = False
        return pipeline(shares[:, context.input_pipeline_id]).with_options(options)

    return strategy.distribute_datasets_from_function(of_replica, each)


def _cpus(tf: Any, request: Request) -> list[str]:
    """Several replicas are virtual devices that share the cores: a rehearsal, no speed-up."""
    if request.replicas > 1:
        physical = tf.config.list_physical_devices("CPU")[0]
        virtual = [tf.config.LogicalDeviceConfiguration()] * request.replicas
        tf.config.set_logical_device_configuration(physical, virtual)
    return [device.name for device in tf.config.list_logical_devices("CPU")]


def _gpus(tf: Any, request: Request) -> list[str]:
    found = [device.name for device in tf.config.list_logical_devices("GPU")]
    if len(found) < request.replicas:
        raise StudyError(f"{request.device}: {_why_no_gpu(tf, request.replicas, len(found))}")
    return found[: request.replicas]


def _why_no_gpu(tf: Any, replicas: int, found: int) -> str:
    build, version = tf.sysconfig.get_build_info(), tf.__version__
    if not build["is_cuda_build"]:
        return f"TensorFlow {version} is built without CUDA; {ENVIRONMENT.format('gpu')}"
    if (absent := gpu.absent_reason(replicas)) is not None:
        return absent
    return (
        f"TensorFlow {version} finds {found} of {replicas} GPUs with driver {gpu.describe().driver}; it is built for "
        f"CUDA {build['cuda_version']} and cuDNN {build['cudnn_version']}: take a driver of that CUDA or newer, or "
        f"CUDA's libraries ({ENVIRONMENT.format('gpu')})"
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
            f"tensorflow-tpu: {ENVIRONMENT.format('tpu')}"
        ) from error
    names = [device.name for device in tf.config.list_logical_devices("TPU")]
    if len(names) < request.replicas:
        raise StudyError(f"{request.device}: {len(names)} TPU cores found on this host, {request.replicas} asked")
    assignment = tf.tpu.experimental.DeviceAssignment.build(topology, num_replicas=request.replicas)
    strategy = tf.distribute.TPUStrategy(cluster, experimental_device_assignment=assignment)
    return strategy, names[: request.replicas]
