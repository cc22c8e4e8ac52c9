"""About how long each run takes and what it needs. Estimates, made before anything runs.

A step's time comes from the study's own records of the same cell where there are any, else from analytic
FLOPs and how fast the device probably is. Keras is imported to count FLOPs: some seconds. Nothing of a user's own model
runs: it has an estimate where a record of it exists.
"""

import math
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.base.processes import quick_imports, without_native_messages
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.measure.backends import backend_class
from whichdevice.measure.backends.number_formats import product_format
from whichdevice.measure.estimated_memory import FRAMEWORK_BYTES, estimated_memory, inference_memory, operation_memory
from whichdevice.measure.machine.calibration import host_flops
from whichdevice.measure.record import Record, Request
from whichdevice.measure.timing import WARM_UP_SHARE, warm_up_steps
from whichdevice.models.counting import model_costs, without_values
from whichdevice.models.datasets.base import get_dataset
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import OperationWorkload, TrainingWorkload
from whichdevice.study.cells import Cell, Run, model_of
from whichdevice.study.config.model import Study
from whichdevice.study.planning import devices
from whichdevice.study.records.store import read_record
from whichdevice.study.request import build_request, planned_record
from whichdevice.study.tables.hardware import sheet_peak, sheet_row

START_SECONDS = 7.0  # a process with TensorFlow and Keras imported, on two cores
FIRST_STEP_SECONDS = 2.0  # tracing
# Of an operation that PyTorch starts from Python on a CPU; LSTM and GRU of Keras took 107 to 268 µs on a busy machine.
EAGER_SECONDS = 50e-6
RUN_BYTES = 600_000  # record, log and predictions
REDRAW_SECONDS = 40.0  # tables, figures and report
EFFICIENCY = 0.5  # of a training step against a plain product, on a CPU
SHEET_SHARE = 0.2  # of the sheet's peak that a training step is taken to reach on a GPU or TPU
FORWARD_SHARE = 3  # of a training step, the forward pass is one part in so many
FLOAT32_PASSES = 6  # bfloat16 products that a TPU makes a float32 one of
# What differs between repeats of a cell, and changes no step.
OF_ONE_REPEAT = {"repeat": 0, "seed": 0, "learn": False, "learn_seconds": None, "epochs": 0}
OWN_MODEL = "a model of your own: a plan runs none of its code; `whichdevice ask FILE` does"


@dataclass(frozen=True)
class Need:
    """The time and memory that one run is expected to take."""

    seconds: float
    memory: float  # bytes
    disk: float  # bytes
    unknown: str | None = None  # why there is no estimate of its time


@dataclass(frozen=True)
class _Shape:
    """The values that a run's time follows from."""

    flops_per_step: float | None
    forward_flops: float  # of one validation example
    steps_per_epoch: int
    validation_examples: int
    memory: float
    weights: float
    eager_seconds: float = 0.0  # of a step, whatever its batch: what starts operations one by one
    unknown: str | None = None


def estimate_run(study: Study, run: Run) -> Need:
    """Seconds, memory and disk of one run."""
    request, earlier = build_request(study, run), _earlier(study, run.cell)
    if model_of(study, run.cell.workload).address.runs_code:
        shape = _recorded_shape(earlier, request.batch_size)
    else:
        shape = _shape(request.model_copy(update=OF_ONE_REPEAT).model_dump_json())
    speed = step_flops(study, run.cell.device, run.cell.precision)
    computed = (shape.flops_per_step or 0.0) / (speed or math.inf)
    step = _measured_step(earlier) or (computed and computed + shape.eager_seconds)
    timed = max(request.seconds, request.min_steps * step)
    warm = max(WARM_UP_SHARE * request.seconds, warm_up_steps(step, request.seconds) * step)
    seconds = START_SECONDS + FIRST_STEP_SECONDS + step + warm + timed
    if request.mode == "generate":  # the prompts, timed apart
        seconds += FIRST_STEP_SECONDS + step + warm + timed
    if request.learn:
        validation = shape.validation_examples * shape.forward_flops / (speed or math.inf) * request.validation
        epochs = request.epochs * (shape.steps_per_epoch * step + validation)
        seconds += min(epochs, (request.learn_seconds or math.inf) + validation)
    disk = RUN_BYTES + request.learn * shape.weights
    unknown = shape.unknown or (_unknown_speed(run.cell.device) if shape.flops_per_step and not step else None)
    return Need(min(seconds, request.timeout), shape.memory, disk, unknown)


def datasets_bytes(names: Iterable[str]) -> int:
    """Disk that the prepared datasets take."""
    return sum(get_dataset(name).nbytes for name in names)


def _earlier(study: Study, cell: Cell) -> list[Record]:
    """Records in which this cell has a time, oldest first; those of edited code or other settings count as well."""
    records = []
    for repeat in range(1, study.measure.repeats + 1):
        for path in Path(planned_record(study, Run(cell, repeat))).parents[1].glob("*/record.json"):
            with suppress(StudyError):
                records.append(read_record(path))
    return sorted((record for record in records if record.steady.step_time is not None), key=lambda one: one.started)


def _measured_step(records: Sequence[Record]) -> float | None:
    """Median step time in seconds; None without a record."""
    times = [record.steady.step_time for record in records if record.steady.step_time is not None]
    return median(times) if times else None


def _recorded_shape(records: Sequence[Record], batch_size: int) -> _Shape:
    """A model of somebody's own as its last record has it; unknown without one."""
    facts = next((record.workload for record in reversed(records) if record.workload is not None), None)
    if facts is None:
        return _Shape(0.0, 0.0, 0, 0, FRAMEWORK_BYTES, 0.0, unknown=OWN_MODEL)
    return _Shape(
        flops_per_step=facts.flops_per_step,
        forward_flops=(facts.flops_per_step or 0.0) / batch_size / FORWARD_SHARE,
        steps_per_epoch=facts.steps_per_epoch,
        validation_examples=facts.validation_examples,
        memory=facts.estimated_memory,
        weights=facts.parameters * 4,
    )


def _unknown_speed(device: str) -> str:
    return f"how fast {device} is is not known: name its row of config/hardware.csv as devices.{device}.hardware"


@cache
def _shape(request_json: str) -> _Shape:
    request = Request.model_validate_json(request_json)
    workload = Model.read(request.module).asked(request)
    if isinstance(workload, OperationWorkload):
        memory = operation_memory(workload.bytes_per_step, request, workload.host_copies)
        return _Shape(workload.flops_per_step, 0.0, 0, 0, memory, 0.0)
    if not isinstance(workload, TrainingWorkload):
        raise StudyError(f"{request.workload}: neither an operation nor a training workload")
    installed = next((name for name in ("jax", "torch", "tensorflow") if find_spec(name)), "jax")
    os.environ.setdefault("KERAS_BACKEND", installed)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    described = get_dataset(request.dataset).arrays if request.dataset is not None else {}
    try:
        with quick_imports(), without_native_messages():
            import keras

            if counts_shapes := keras.backend.backend() == "jax":
                import jax

                jax.config.update("jax_platforms", "cpu")  # a plan takes no accelerator
        with without_native_messages():
            splits = workload.splits({name: np.zeros(array.shape, array.dtype) for name, array in described.items()})
            model = without_values(workload.model) if counts_shapes else workload.model()
            costs = model_costs(model, example=workload.example(model), workload=workload)
        predicts = request.mode != "train"
        steps = 0 if predicts else workload.steps_per_epoch(splits[0].examples, request.steps_per_epoch)
    except StudyError as error:  # no end of the plan: the run's record will say it too
        return _Shape(0.0, 0.0, 0, 0, FRAMEWORK_BYTES, 0.0, unknown=str(error))
    data_bytes = sum(split.nbytes for split in splits)
    copies = backend_class(request.backend).activation_copies
    eager = request.backend == "torch" and request.kind == "cpu"
    return _Shape(
        flops_per_step=costs.call_flops(request.batch_size) if predicts else costs.step_flops(request.batch_size),
        forward_flops=costs.forward_flops or 0.0,
        steps_per_epoch=steps,
        validation_examples=splits[1].examples,
        memory=inference_memory(costs, request, data_bytes)
        if predicts
        else estimated_memory(costs, request, data_bytes, copies),
        weights=costs.parameters * 4,
        eager_seconds=EAGER_SECONDS * costs.operations * eager / (FORWARD_SHARE if predicts else 1),
        unknown=None if costs.training_flops is not None else f"operations of the model {costs.counted}",
    )


def step_flops(study: Study, device: str, precision: str) -> float | None:
    """Operations a second that a step is taken to reach on a device; None where its hardware is not known."""
    settings = study.devices[device]
    if settings.kind == "cpu":
        return EFFICIENCY * _host_flops()
    sheet = hardware_rows()
    name = None if study.run_on == "all" else _name_here(settings.kind)  # a scheduler's device is not this host's
    row = sheet_row(device, name, study, sheet)

    def peak(product: str) -> float | None:
        return sheet_peak(row, product, settings.replicas, None, sheet).tflops

    rate = peak(product_format(precision)) or peak("float32")  # a GPU without a format multiplies in float32
    if rate is None and settings.kind == "tpu" and (half := peak("bfloat16")) is not None:
        rate = half / FLOAT32_PASSES
    return None if rate is None else SHEET_SHARE * rate * 1e12


@cache
def _host_flops() -> float:
    return host_flops()


@cache
def _name_here(kind: str) -> str | None:
    """Return the name of this host's device of a kind."""
    return devices.kind(kind).describe().name
