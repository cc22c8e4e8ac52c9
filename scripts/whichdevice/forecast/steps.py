"""The step of a workload as a function of shapes: the very function that the JAX backend runs, and what it is given."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.backends.jax_step import state_of, training_step
from whichdevice.forecast.topology import topology_named
from whichdevice.datasets.store import load_dataset
from whichdevice.errors import StudyError
from whichdevice.host.memory import available_memory
from whichdevice.measuring.weights_guard import weights_within
from whichdevice.records.compiled import CompileRequest
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import OperationWorkload, Options, TrainingWorkload
from whichdevice.workloads.costs import model_costs

PRECISIONS = ("float32", "mixed_bfloat16", "bfloat16")


@dataclass(frozen=True)
class Step:
    """What `compile_step` takes, and the operations that the workload's own count gives."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    batch: tuple[int, ...]
    donate: tuple[int, ...]
    outputs: Any
    analytic_flops: float


def set_precision(precision: str) -> None:
    """Make JAX and Keras multiply as the backends do: float32 products for float32, Keras' policy otherwise."""
    import jax
    import keras

    if precision not in PRECISIONS:
        raise StudyError(f"precision {precision}: for GPUs only; on a TPU take one of {', '.join(PRECISIONS)}")
    jax.config.update("jax_default_matmul_precision", "highest" if precision == "float32" else None)
    keras.config.set_dtype_policy(precision)


def step_of(request: CompileRequest, batch_size: int, dataset: Path | None) -> Step:
    """The step of a request at a batch size; `set_precision` was called before."""
    options = Options(batch_size, request.precision, 1.0, request.sequence_length, given=request.options)
    workload = workload_class(request.module)(options)
    if isinstance(workload, OperationWorkload):
        return _operation(workload, request.precision, topology_named(request.topology).devices)
    if not isinstance(workload, TrainingWorkload) or (dataset is None and workload.dataset is not None):
        raise StudyError(f"{request.workload}: nothing to compile without its dataset")
    return _training(workload, dataset)


def _operation(workload: OperationWorkload, precision: str, devices: int) -> Step:
    """Every device runs the whole operation, as every replica of a measured run does."""
    state, operands = workload.operands(np.random.default_rng(0))
    dtype = "float32" if precision == "float32" else "bfloat16"
    described = _described((state, operands), dtype)
    return Step(workload.step, described, (), (0,), "whole", workload.flops_per_step * devices)


def _training(workload: TrainingWorkload, dataset: Path | None) -> Step:
    """Weights and data on every device, example numbers divided over them, the state overwritten."""
    train, _ = workload.splits(load_dataset(dataset).arrays if dataset is not None else {})
    with weights_within(available_memory()):
        model = workload.model()
    optimizer = workload.optimizer()
    optimizer.build(model.trainable_variables)
    workload.check_options()
    index = np.empty(workload.options.batch_size, np.int32)
    flops = model_costs(model, example=workload.example_shape(model)).training_flops * workload.options.batch_size
    arguments = _described((state_of(model, optimizer), dict(train.arrays), index))
    return Step(training_step(workload, model, optimizer), arguments, (2,), (0,), ("whole", "whole"), flops)


def _described(tree: Any, dtype: str | None = None) -> Any:
    """Shapes and types in place of arrays, with the types that JAX would store."""
    import jax

    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype or jax.dtypes.canonicalize_dtype(leaf.dtype)), tree
    )
