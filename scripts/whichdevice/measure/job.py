"""The first steps of every run of a model in the measured process: data, model, facts, and a check that it fits."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whichdevice.base.events import Emitter
from whichdevice.base.parts import WHOLE_COUNT
from whichdevice.measure.backends.base import Backend
from whichdevice.measure.record import DataFacts, Request, WorkloadFacts
from whichdevice.measure.run_end import built_within, refuse_what_cannot_fit
from whichdevice.models.datasets.store import load_dataset
from whichdevice.models.workloads.base import Split, TrainingWorkload


@dataclass(frozen=True)
class StepWork:
    """The work of one step on all replicas."""

    operations: float | None = None  # of products and convolutions; None: unknown
    nbytes: float = 0.0  # that its kernels move
    between: float = 0.0  # bytes that live at once beside weights, optimiser and data
    counted: str = WHOLE_COUNT  # else what is missing, or why there is no count


class Built(NamedTuple):
    """Data and model of a run, and the seconds that each took."""

    train: Split
    validation: Split
    model: Any
    load: float
    build: float


@dataclass(frozen=True)
class Job:
    """One run of a model: what is asked, what runs it, and where everything goes."""

    backend: Backend
    workload: TrainingWorkload
    request: Request
    emit: Emitter
    memory_limit: float  # bytes of host memory that are free
    work: StepWork  # of its step
    folder: Path  # for artefacts
    dataset: Path | None = None  # prepared; None: the workload has its own data

    def load_and_build(self) -> Built:
        """Data and model; sends what the data are where they come with the workload."""
        self.emit.progress("loading data")
        splits, load = timed_call(
            lambda: self.workload.splits({} if self.dataset is None else load_dataset(self.dataset).arrays)
        )
        if self.request.learn_seconds is not None:
            splits = splits[0], self.workload.part(splits[1])
        if self.dataset is None:
            self.emit.part("data", _made_data(self.workload, self.request.workload, *splits))
        self.emit.progress("building the model")
        limit = self.memory_limit if self.request.kind == "cpu" else None
        with self.backend.scope():
            model, build = timed_call(lambda: built_within(limit, self.workload.model))
        return Built(splits[0], splits[1], model, load, build)

    def announce(self, facts: WorkloadFacts) -> None:
        """Send the workload's facts; raises RefusedError where it needs more memory than there is."""
        self.emit.part("workload", facts)
        refuse_what_cannot_fit(facts.estimated_memory, self.memory_limit)


def timed_call(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return what the call returns, and its seconds."""
    began = time.perf_counter()
    value = call()
    return value, time.perf_counter() - began


def _made_data(workload: TrainingWorkload, name: str, *splits: Split) -> DataFacts:
    """Named after the workload, with a checksum over all arrays."""
    digest = hashlib.sha256()
    for split in splits:
        for array in split.arrays.values():
            digest.update(np.ascontiguousarray(array).data)
    return DataFacts(dataset=name, source=workload.data_source, checksum=digest.hexdigest())
