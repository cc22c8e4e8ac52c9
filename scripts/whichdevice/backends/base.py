"""What a backend does for a run. Every method that returns numbers has waited for the device first."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from whichdevice.records.schema import Request
from whichdevice.workloads.base import OperationWorkload, Split, TrainingWorkload


class Means(NamedTuple):
    """Means over examples; the metric is None where the workload has none."""

    loss: float
    metric: float | None


class OperationLoop(Protocol):
    """A single operation, repeated on the device."""

    def run(self, steps: int) -> None:
        """Run so many dependent steps and wait for the last."""


class TrainingLoop(ABC):
    """A model being trained on data that lies on the device."""

    @abstractmethod
    def run(self, batches: np.ndarray) -> Means:
        """Train on batches of example numbers, int32 [steps, batch]; the steps' mean loss and metric."""

    @abstractmethod
    def reset(self) -> None:
        """Back to the initial weights, the initial optimiser and the initial random state."""

    @abstractmethod
    def evaluate(self) -> Means:
        """Loss and metric over the whole validation split, its tail included."""

    @abstractmethod
    def predict(self, index: np.ndarray) -> np.ndarray:
        """Predictions for the validation examples `index`, as float32."""

    @abstractmethod
    def publish(self) -> None:
        """Bring the trained values into the Keras model, so that callbacks and saving see them."""


class Backend(ABC):
    """One framework on one device."""

    name: str
    loops: tuple[str, ...]  # the training loops that it has
    precisions: tuple[str, ...]  # the number formats that it trains in

    def __init__(self, request: Request, threads: int) -> None:
        self.request = request
        self.threads = threads

    @staticmethod
    @abstractmethod
    def environment(request: Request, threads: int) -> dict[str, str]:
        """Environment variables that must stand before the process starts."""

    @abstractmethod
    def start(self) -> None:
        """Import the framework, take the device, set precision and seed."""

    @abstractmethod
    def operation_loop(self, workload: OperationWorkload, random: np.random.Generator) -> OperationLoop:
        """Place the operands and build the loop; nothing is traced or compiled yet."""

    @abstractmethod
    def training_loop(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> TrainingLoop:
        """Place the data and build the loop; nothing is traced or compiled yet."""

    @abstractmethod
    def flags(self) -> Mapping[str, str]:
        """Settings as they really are: compiler, threads, types of storage, product and sum."""

    @abstractmethod
    def device(self) -> tuple[str | None, int]:
        """Name and number of the devices that the framework uses; no name: take the host's."""

    @abstractmethod
    def peak_device_memory(self) -> int | None:
        """Bytes, or None where memory is the host's."""

    @abstractmethod
    def trace(self, folder: Path) -> AbstractContextManager[Any]:
        """Write a profile that TensorBoard opens while the context lasts."""

    @abstractmethod
    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether the error says that host or device memory did not suffice."""
