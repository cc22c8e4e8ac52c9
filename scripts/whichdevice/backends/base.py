"""What a backend does for a run. Every method that returns numbers has waited for the device first."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from whichdevice.host.memory import peak_memory
from whichdevice.records.facts import Types
from whichdevice.records.request import Request
from whichdevice.workloads.base import OperationWorkload, Split, TrainingWorkload

WINDOW_SECONDS = 0.1  # at least, for one timed call; a loop may want more
ENVIRONMENT = "make study ENV={} installs one that fits"  # said where a framework lacks a device
# As Python, PyTorch, XLA, CUDA, cuBLAS and cuDNN say it, in lower case.
NO_MEMORY = (
    "memoryerror",
    "can't allocate memory",
    "resource_exhausted",
    "out of memory",
    "out_of_memory",
    "alloc_failed",
    "resource allocation failed",
)


def says_no_memory(error: BaseException) -> bool:
    """Whether a framework's error is of host or device memory, by its words; another process may hold it."""
    said = str(error).lower()
    return any(words in said for words in NO_MEMORY)


Forward = Callable[[Any], Any]  # inputs to predictions, in host memory: each an array, or a tuple or dict of arrays


class Means(NamedTuple):
    """Means over examples; the metric is None where the workload has none."""

    loss: float
    metric: float | None


class OperationLoop(Protocol):
    """A single operation, repeated on the device."""

    def run(self, steps: int) -> None:
        """Run so many dependent steps and wait for the last."""


class TrainingLoop(ABC):
    """A model being trained; `run` is given the same batches whatever the backend and the kind of loop."""

    window_seconds: ClassVar[float] = WINDOW_SECONDS
    whole_epochs: bool = False  # whether an epoch of learning is one call of `run`

    @abstractmethod
    def run(self, batches: np.ndarray) -> Means:
        """Train on batches of example numbers, int32 [steps, batch]; the steps' mean loss and metric."""

    @abstractmethod
    def reset(self) -> None:
        """Back to the initial weights, the initial optimiser and the initial random state."""

    @abstractmethod
    def evaluate(self) -> Means | None:
        """Loss and metric over the whole validation split, its tail included; None: the model has no call."""

    @abstractmethod
    def predict(self, index: np.ndarray) -> np.ndarray:
        """Predictions for the validation examples `index`, as float32."""

    @abstractmethod
    def publish(self) -> None:
        """Bring the trained values into the Keras model, so that callbacks and saving see them."""

    @abstractmethod
    def adopt(self) -> None:
        """Go on from the values that the Keras model holds now, e.g. after loading weights."""


class Backend(ABC):
    """One framework on one device, of one or several replicas that share each batch."""

    name: ClassVar[str]
    package: ClassVar[str]  # what must be installed
    precisions: ClassVar[tuple[str, ...]]  # the number formats that it trains in
    loops: ClassVar[tuple[str, ...]] = ("epoch", "fit")
    activation_copies: ClassVar[float] = 1.5  # host memory of a step, in units of the activations in costs.py

    def __init__(self, request: Request, threads: int) -> None:
        self.request = request
        self.threads = threads

    @staticmethod
    @abstractmethod
    def environment(request: Request, threads: int) -> dict[str, str]:
        """Environment variables that must stand before the process starts."""

    @abstractmethod
    def start(self) -> None:
        """Import the framework; set precision and seed."""

    @abstractmethod
    def initialise(self) -> None:
        """Take the devices, as many as replicas are asked for; raises StudyError where they are not there."""

    def scope(self) -> AbstractContextManager[Any]:
        """What a model is built under, so that its variables lie on every replica."""
        return nullcontext()

    @abstractmethod
    def operation_loop(self, workload: OperationWorkload, random: np.random.Generator) -> OperationLoop:
        """Place the operands on every replica and build the loop; nothing is traced or compiled yet."""

    @abstractmethod
    def training_loop(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> TrainingLoop:
        """Place the data and build the loop that the request names; nothing is traced or compiled yet."""

    @abstractmethod
    def forward_pass(self, model: Any) -> Forward:
        """What predicts a batch of the model's inputs, as the request's loop says; nothing is traced or compiled yet.

        It takes and gives NumPy arrays, and so has waited for the device when it returns. Replicas share the batch;
        raises StudyError where the backend's replicas cannot.
        """

    def gap_share(self, run: Callable[[], object]) -> float | None:
        """Share of a run in which the host prepared the next operation and none ran; None where that is unknown."""
        return None

    @abstractmethod
    def flags(self) -> Mapping[str, str]:
        """Settings as they really are: compiler, threads."""

    @abstractmethod
    def types(self) -> Types:
        """Number formats of storage, product and sum as the framework is really set."""

    @abstractmethod
    def device(self) -> tuple[str | None, int]:
        """Name and number of the devices that the framework uses; no name: take the host's."""

    @abstractmethod
    def peak_device_memory(self) -> int | None:
        """Bytes, or None where memory is the host's."""

    def peak_host_memory(self) -> int:
        """The most bytes that the process has held at once so far."""
        return peak_memory()

    @abstractmethod
    def trace(self, folder: Path) -> AbstractContextManager[Any]:
        """Write a profile that TensorBoard opens while the context lasts."""

    @abstractmethod
    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether the error says that host or device memory did not suffice."""
