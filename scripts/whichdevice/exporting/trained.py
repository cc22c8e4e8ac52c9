"""What the two processes of an export share: their job, the workload as trained, and its recorded predictions."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel

from whichdevice.datasets.store import load_dataset
from whichdevice.errors import StudyError
from whichdevice.records.request import Request
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import Options, Split, TrainingWorkload

PART = 500  # examples predicted at once


class Job(BaseModel):
    """What one export needs; paths are those of this machine and stay out of every record."""

    request: Request  # of the run whose model it is
    weights: Path
    examples: Path | None  # what the run predicted
    dataset: Path | None
    folder: Path  # of the export


class Trained(NamedTuple):
    """A workload with its validation data."""

    workload: TrainingWorkload
    validation: Split


@dataclass(frozen=True)
class Examples:
    """Validation examples int32 [n], and what the run predicted for them, float32 [n, ...]."""

    index: np.ndarray
    predictions: np.ndarray


def trained_workload(job: Job) -> Trained:
    """The workload with the options of its run; its splits are made, for scaling may be read off them.

    Without a dataset they are generated or the model file's own, the same as in the run.
    """
    asked = job.request
    workload = workload_class(asked.module)(
        Options(asked.batch_size, asked.precision, asked.fraction, asked.sequence_length, given=asked.options)
    )
    if not isinstance(workload, TrainingWorkload):
        raise StudyError(f"{asked.workload}: a single operation has no model to export")
    arrays = {} if job.dataset is None else load_dataset(job.dataset).arrays
    return Trained(workload, workload.splits(arrays)[1])


def set_precision(precision: str) -> None:
    """Keras builds in the number format of the run."""
    import keras

    keras.config.set_dtype_policy("float32" if precision == "tf32" else precision)


def recorded_examples(path: Path | None) -> Examples | None:
    """The run's own predictions, or None where it kept none."""
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as arrays:
        return Examples(arrays["index"], arrays["predictions"])


def raw_inputs(trained: Trained, index: np.ndarray) -> Any:
    """Raw inputs of validation examples, one part after the other."""
    workload, validation = trained
    for start in range(0, len(index), PART):
        yield np.asarray(workload.raw_batch(validation.arrays, index[start : start + PART]))
