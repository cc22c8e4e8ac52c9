"""What a rank from 1 on does: its part of each thing that rank 0 does."""

from typing import Any

import numpy as np
import torch

from whichdevice.backends.base import Means, TrainingLoop
from whichdevice.backends.torch_devices import join_ranks, take_device
from whichdevice.backends.torch_loops import build_loop
from whichdevice.backends.torch_operation import TorchOperation
from whichdevice.host.memory import peak_memory
from whichdevice.records.request import Request
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import OperationWorkload, Split, TrainingWorkload


class Rank:
    """Follows commands, each a method's name and arguments."""

    def __init__(self, request: Request, threads: int, rank: int) -> None:
        self._request, self._threads, self._rank = request, threads, rank
        self._loop: TrainingLoop
        self._operation: TorchOperation
        workload_class(request.module)  # a workload in a file is known by its name from now on

    def __call__(self, verb: str, arguments: tuple) -> Any:
        """Do what rank 0 says."""
        return getattr(self, verb)(*arguments)

    def take(self) -> None:
        """The rank's device."""
        take_device(self._request, self._rank, self._threads)

    def join(self, folder: str) -> None:
        """The other ranks."""
        join_ranks(self._request, self._rank, folder)

    def training(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> None:
        """Build the loop; each rank drops out other units."""
        torch.manual_seed(self._request.seed + 1_000_003 * self._rank)
        self._model = model
        self._loop = build_loop(self._request, workload, model, train, validation, lambda _: None)

    def run(self, batches: np.ndarray, rate: float | None) -> Means:
        """Train on the rank's slices; a rate only where no schedule sets it."""
        if rate is not None:
            self._model.optimizer.learning_rate = rate
        return self._loop.run(batches)

    def reset(self) -> None:
        """Initial values."""
        self._loop.reset()

    def adopt(self, weights: list[np.ndarray]) -> None:
        """Rank 0's values."""
        self._model.set_weights(weights)
        self._loop.adopt()

    def operation(self, workload: OperationWorkload, random: np.random.Generator, dtype: str) -> None:
        """The rank's own operands, equal to rank 0's."""
        device = "cuda" if self._request.kind == "gpu" else "cpu"
        self._operation = TorchOperation(workload, random, dtype, device, lambda _: None)

    def peak_host_memory(self) -> int:
        """The most that the rank has held at once so far."""
        return peak_memory()

    def operate(self, steps: int) -> None:
        """Steps of the operation."""
        self._operation.run(steps)
