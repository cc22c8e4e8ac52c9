"""Data parallel over processes, as in Keras' guide to PyTorch on several devices: one rank each, and DDP between them.

The measured process is rank 0. The others are started from it before any device is taken, and then do what it does:
each thing is broadcast as the name of a method and its arguments, and every rank's answer is gathered.
"""

import os
import tempfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import distributed, multiprocessing

from whichdevice.base.memory import peak_memory
from whichdevice.measure.backends.base import Means, TrainingLoop
from whichdevice.measure.backends.keras_on_torch import build_loop
from whichdevice.measure.backends.torch_devices import join_ranks, take_device
from whichdevice.measure.backends.torch_operation import TorchOperation
from whichdevice.measure.record import Request
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import OperationWorkload, Split, TrainingWorkload

RANK_PATIENCE = timedelta(days=7)  # for the next thing to do: rank 0 evaluates and saves alone
GRACE_SECONDS = 10.0  # for a rank that failed to end


class ReplicaError(RuntimeError):
    """A rank failed; the message is its own."""


class Rank:
    """A rank other than 0; each method is called on all of them at the same time as rank 0's own part."""

    def __init__(self, request: Request, rank: int) -> None:
        self._request, self._rank = request, rank
        self._loop: Any = None
        self._model: Any = None

    def training(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> None:
        """Build the loop; each rank drops out other units."""
        torch.manual_seed(self._request.seed + 1_000_003 * self._rank)
        self._model, self._loop = model, build_loop(self._request, workload, model, train, validation, lambda _: None)

    def run(self, batches: np.ndarray, rate: float | None) -> Means:
        """Train on the rank's share of each batch; `rate` is None where a schedule sets it."""
        if rate is not None:
            self._model.optimizer.learning_rate = rate
        return self._loop.run(share(batches, self._request.replicas, self._rank))

    def reset(self) -> None:
        """Go back to the initial values."""
        self._loop.reset()

    def adopt(self) -> None:
        """Take the values that rank 0's model holds."""
        share_values(self._model)
        self._loop.adopt()

    def operation(self, workload: OperationWorkload, random: np.random.Generator, dtype: str) -> None:
        """Place operands, equal to rank 0's."""
        device = "cuda" if self._request.kind == "gpu" else "cpu"
        self._loop = TorchOperation(workload, random, dtype, device, lambda _: None)

    def operate(self, steps: int) -> None:
        """Run steps of the operation."""
        self._loop.run(steps)

    def peak_host_memory(self) -> int:
        """The most bytes that the rank has held at once so far."""
        return peak_memory()


class Team:
    """Rank 0's view of the ranks; raises ReplicaError, or MemoryError, in the words of a rank that failed."""

    def __init__(self, request: Request, threads: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        arguments = (request, threads, self._folder.name)
        self._others = multiprocessing.start_processes(
            follow, arguments, request.replicas - 1, join=False, daemon=True, start_method="fork"
        )
        take_device(request, 0, threads)
        self._control = self._watched(lambda: connect(request, 0, self._folder.name))

    def pids(self) -> list[int]:
        """Process numbers of ranks 1 and up."""
        return [int(number) for number in self._others.pids()]

    def together(self, verb: str, own_part: Callable[[], Any], *arguments: Any) -> list[Any]:
        """Have every rank do its part, do rank 0's, and wait for all: the answers by rank."""

        def work() -> list[Any]:
            distributed.broadcast_object_list([(verb, arguments)], 0, self._control)
            answer, answers = own_part(), [None] * distributed.get_world_size()
            distributed.gather_object(None, answers, 0, self._control)
            return [answer, *answers[1:]]

        return self._watched(work)

    def _watched(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Exception as error:  # perhaps no more than what rank 0 sees of another rank's end
            try:
                self._others.join(GRACE_SECONDS)
            except multiprocessing.ProcessRaisedException as raised:
                last = str(raised).strip().splitlines()[-1]
                raise ReplicaError(f"replica {raised.error_index + 1}: {last}") from error
            except multiprocessing.ProcessExitedException as exited:
                if exited.signal_name == "SIGKILL":
                    why = f"replica {exited.error_index + 1} was killed, most likely for lack of memory"
                    raise MemoryError(why) from error
                raise ReplicaError(f"replica {exited.error_index + 1} is gone: {exited}") from error
            raise


def follow(place: int, request: Request, threads: int, folder: str) -> None:
    """The life of a rank: do what rank 0 does until that one is gone."""
    rank = place + 1
    take_device(request, rank, threads)
    _ = Model.read(request.module).kind  # a workload in a file is known by its name from now on
    control, member = connect(request, rank, folder), Rank(request, rank)
    while True:
        message: list[Any] = [None]
        try:
            distributed.broadcast_object_list(message, 0, control)
        except RuntimeError:  # rank 0 is gone
            os._exit(0)
        verb, arguments = message[0]
        distributed.gather_object(getattr(member, verb)(*arguments), None, 0, control)


def connect(request: Request, rank: int, folder: str) -> Any:
    """Join the ranks; returns the group of which messages go, apart from the devices."""
    join_ranks(request, rank, folder)
    return distributed.new_group(backend="gloo", timeout=RANK_PATIENCE)


def share(batches: np.ndarray, replicas: int, rank: int) -> np.ndarray:
    """A rank's part of batches, int32 [steps, batch]."""
    return np.split(batches, replicas, axis=1)[rank]


def share_values(model: Any) -> None:
    """Give every rank the values of rank 0's model."""
    for variable in model.variables:
        distributed.broadcast(variable.value.detach(), 0)


class ReplicatedTraining(TrainingLoop):
    """Rank 0's loop and, through the team, everybody else's, each on its share of every batch.

    Losses and metrics are means over ranks, whose shares are equal; batch statistics of a layer are each rank's own,
    and rank 0's are kept, as PyTorch's DistributedDataParallel has it.
    """

    window_seconds = 1.0  # a call wakes every rank

    def __init__(self, team: Team, loop: TrainingLoop, model: Any, replicas: int) -> None:
        self._team, self._loop, self._model, self._replicas = team, loop, model, replicas
        self.whole_epochs = loop.whole_epochs
        self._optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
        self._scheduled = isinstance(self._optimizer.get_config()["learning_rate"], dict)

    def run(self, batches: np.ndarray) -> Means:
        """Train on all ranks and wait for all of them."""
        rate = None if self._scheduled else float(self._optimizer.learning_rate)  # callbacks change it between calls
        part = share(batches, self._replicas, 0)
        means = self._team.together("run", lambda: self._loop.run(part), batches, rate)
        metrics = [mean.metric for mean in means if mean.metric is not None]
        return Means(float(np.mean([mean.loss for mean in means])), float(np.mean(metrics)) if metrics else None)

    def reset(self) -> None:
        """Every rank goes back to the values that all began with."""
        self._team.together("reset", self._loop.reset)

    def evaluate(self) -> Means | None:
        """Evaluate on rank 0."""
        return self._loop.evaluate()

    def predict(self, index: np.ndarray) -> np.ndarray:
        """Predict on rank 0."""
        return self._loop.predict(index)

    def publish(self) -> None:
        """Rank 0's Keras model."""
        self._loop.publish()

    def adopt(self) -> None:
        """Every rank goes on from what rank 0's Keras model holds."""

        def own_part() -> None:
            share_values(self._model)
            self._loop.adopt()

        self._team.together("adopt", own_part)


class ReplicatedOperation:
    """The same operation on every rank, each on its own operands; done when the last rank is."""

    def __init__(self, team: Team, loop: TorchOperation) -> None:
        self._team, self._loop = team, loop

    def run(self, steps: int) -> None:
        """Run on all ranks and wait for all of them."""
        self._team.together("operate", lambda: self._loop.run(steps), steps)
