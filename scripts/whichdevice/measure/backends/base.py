"""Define what a backend does for a run, and what all backends share: model losses, memory.

Every method that returns numbers has waited for the device first.
"""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.measure.record import Request, Types
from whichdevice.models.workloads.base import OperationWorkload, Split, TrainingWorkload

INSTALL_HINT = "make study ENV={} installs one that fits"  # said where a framework lacks a device
GENERATED_BY = "mode generate of a Keras model runs on backend jax: set backend: jax"
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
    """A model being trained over data that lies on the device; `run` gets the same batches whatever the backend."""

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
        """Predictions for the validation examples `index`, as float32; no numbers where the model has no call."""

    def publish(self) -> None:  # noqa: B027
        """Bring the trained values into the model, so that callbacks and saving see them; most loops train its own."""

    def adopt(self) -> None:  # noqa: B027
        """Go on from the values that the model holds now, e.g. after loading weights; most loops train its own."""


class Generator(ABC):
    """A causal model that generates tokens for a batch of prompts; both methods wait for the device."""

    cache_bytes: int  # of keys and values, of all sequences at their full length

    @abstractmethod
    def prefill(self) -> None:
        """Process the whole prompts, which fills the cache and gives the first new token of each."""

    @abstractmethod
    def decode(self, steps: int) -> None:
        """Generate so many further tokens of each sequence; `prefill` was called before."""


Declared = TypeVar("Declared", bound="type[Backend]")


def backend(name: str, *, framework: str = "keras") -> Callable[[Declared], Declared]:
    """Declare a class as the backend of this name, for models of Keras or for models of the framework.

    The arguments are literals: they are read from the source.
    """
    return lambda declared: declared


class Backend(ABC):
    """One framework on one device, of one or several replicas that share each batch."""

    name: ClassVar[str]
    package: ClassVar[str]  # what must be installed
    precisions: ClassVar[tuple[str, ...]]  # the number formats that it trains in
    activation_copies: ClassVar[float] = 2.0  # host memory of a step, in units of what was counted to live between

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
        """Return the context that a model is built under, so that its variables are on every replica."""
        return nullcontext()

    @abstractmethod
    def operation_loop(self, workload: OperationWorkload, random: np.random.Generator) -> OperationLoop:
        """Place the operands on every replica and build the loop; nothing is traced or compiled yet."""

    @abstractmethod
    def training_loop(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> TrainingLoop:
        """Place the data and build the loop; nothing is compiled yet."""

    @abstractmethod
    def forward_pass(self, model: Any) -> Forward:
        """Return what predicts a batch of inputs; nothing is traced or compiled yet.

        It takes and gives NumPy arrays, and so has waited for the device when it returns. Replicas share the batch;
        raises StudyError where the backend's replicas cannot.
        """

    def generator(self, workload: TrainingWorkload, model: Any, tokens: np.ndarray) -> Generator:
        """Return the generator: the first half of `tokens` (int32 [batch, length]) is the prompt.

        Nothing is traced or compiled yet. Raises StudyError where the model or the backend does not generate.
        """
        raise StudyError(GENERATED_BY)

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

    @abstractmethod
    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether the error says that host or device memory did not suffice."""


VARIABLE = "GLIBC_TUNABLES"
HUGE_PAGES = "glibc.malloc.hugetlb=1"  # glibc 2.35 and later ask the kernel for them (madvise); others ignore it


def huge_pages(request: Request) -> dict[str, str]:
    """The variable that must stand before the process starts, with the caller's own tunables."""
    if request.kind != "cpu" or not sys.platform.startswith("linux"):
        return {}
    tunables = [part for part in os.environ.get(VARIABLE, "").split(":") if part and "malloc.hugetlb" not in part]
    return {VARIABLE: ":".join([*tunables, HUGE_PAGES])}


def built_optimizer(
    request: Request, workload: TrainingWorkload, model: Any, scale: Callable[[Any], Any] | None = None
) -> Any:
    """Return the optimiser of a Keras model, built; in float16 it scales the loss, as Keras' `compile` would have it.

    `scale` makes the one that scales, Keras' LossScaleOptimizer if not given. Optimisers that the model's own step
    takes besides are built when it first runs. Raises StudyError for a model that is compiled to run eagerly.
    """
    import keras

    if not workload.own_step(model):
        optimizer = workload.optimizer()
        if request.precision == "mixed_float16":
            optimizer = (scale or keras.optimizers.LossScaleOptimizer)(optimizer)
        optimizer.build(model.trainable_variables)
        return optimizer
    if model.run_eagerly:
        raise StudyError("the model is compiled with run_eagerly: leave that out, its step is timed as a program")
    if model.optimizer is not None:
        model.optimizer.build(model.trainable_variables)
    return model.optimizer


def optimizer_variables(model: Any) -> list[Any]:
    """Return the variables of every optimiser that the model holds: an own step may use several."""
    import keras

    held = [model.optimizer, *(part for part in vars(model).values() if isinstance(part, keras.optimizers.Optimizer))]
    named = {id(optimizer): optimizer for optimizer in held if optimizer is not None}
    return [variable for optimizer in named.values() for variable in optimizer.variables]


def means_of(values: Any, workload: TrainingWorkload) -> Means:
    """Return loss and metric of two numbers, of which the second is none where the workload has no metric."""
    loss, metric = values.tolist()
    return Means(loss, None if workload.metric is None else metric)


