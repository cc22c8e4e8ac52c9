"""Data parallel over processes: the measured process is rank 0, the other ranks are forked from it and do as it says.

They are forked before any device, context or pool of threads is taken, so that nothing is imported twice; what they
need later (model, data) is sent to them. Each ends as soon as the measured process is gone, however it went.
"""

import contextlib
import multiprocessing
import os
import pickle  # nosec B403  # only between this run's own processes
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from whichdevice.backends.base import Means, OperationLoop, TrainingLoop

Member = Callable[[str, tuple], Any]  # does what a rank is told: (verb, arguments) → answer
GRACE_SECONDS = 10.0  # for rank 0 to say itself why it cannot go on without a rank


class ReplicaError(RuntimeError):
    """A rank failed; the message is its own."""


class Team:
    """The ranks from 1 on; `member(rank)` makes, in its process, what follows commands."""

    def __init__(self, size: int, member: Callable[[int], Member]) -> None:
        context = multiprocessing.get_context("fork")
        self._open = True
        held, lifeline = os.pipe()
        self._ends: list[Connection] = []
        self._processes = []
        for rank in range(1, size):
            ours, theirs = context.Pipe()
            self._ends.append(ours)
            inherited = [lifeline, *(end.fileno() for end in self._ends)]
            arguments = (rank, member, theirs, held, inherited)
            process = context.Process(target=_follow, args=arguments, daemon=True, name=f"rank {rank}")
            process.start()  # type: ignore[attr-defined]  # the stubs lose the type of a context's process
            theirs.close()
            self._processes.append(process)
        threading.Thread(target=self._end_with_any, daemon=True).start()

    def tell(self, verb: str, *shared: Any, own: list[tuple] | None = None) -> None:
        """Send every rank a command; `own` holds further arguments for each."""
        for place, end in enumerate(self._ends):
            if own is not None or place == 0:
                message = pickle.dumps((verb, (*shared, *(own[place] if own else ()))))
            with contextlib.suppress(OSError):  # gone: `hear` says so
                end.send_bytes(message)

    def hear(self) -> list[Any]:
        """What every rank answers, once all have done as told; raises ReplicaError in the words of one that failed."""
        return [self._answer(rank) for rank in range(1, len(self._ends) + 1)]

    def _answer(self, rank: int) -> Any:
        try:
            worked, answer = pickle.loads(self._ends[rank - 1].recv_bytes())  # nosec B301  # a pipe to a child of this run
        except (EOFError, OSError) as error:
            process = self._processes[rank - 1]
            process.join(1.0)
            if process.exitcode == -signal.SIGKILL:
                raise MemoryError(f"replica {rank} was killed, most likely for lack of memory") from error
            raise ReplicaError(f"replica {rank} is gone (exit code {process.exitcode})") from error
        if not worked:
            raise ReplicaError(f"replica {rank}: {answer}")
        return answer

    def together(self, verb: str, own_part: Callable[[], Any], *shared: Any, own: list[tuple] | None = None) -> list:
        """Tell the ranks, do rank 0's part, and wait for all: the answers by rank."""
        self.tell(verb, *shared, own=own)
        try:
            mine = own_part()
        except Exception:
            for rank, end in enumerate(self._ends, 1):
                if end.poll(1.0):  # a broken connection is only what rank 0 sees of another rank's failure
                    self._answer(rank)
            raise
        return [mine, *self.hear()]

    def close(self) -> None:
        """End the ranks."""
        self._open = False
        for process in self._processes:
            process.terminate()
            process.join()

    def _end_with_any(self) -> None:
        """A device waits for a lost rank for ever: after a while this process ends the way that rank did."""
        wait([process.sentinel for process in self._processes])
        if self._open:
            time.sleep(GRACE_SECONDS)
        if not self._open:
            return
        code = next((process.exitcode for process in self._processes if process.exitcode), 1)
        print(f"a replica ended with exit code {code}; the run cannot go on", file=sys.stderr, flush=True)
        os.kill(os.getpid(), -code if code < 0 else signal.SIGABRT)


def _follow(rank: int, member: Callable[[int], Member], end: Connection, held: int, inherited: list[int]) -> None:
    """The life of a rank: answer commands until rank 0 is gone."""
    for descriptor in inherited:
        os.close(descriptor)  # else the ranks would keep each other alive
    threading.Thread(target=_end_with_rank_0, args=(held,), daemon=True).start()
    do = member(rank)
    while True:
        try:
            verb, arguments = pickle.loads(end.recv_bytes())  # nosec B301  # a pipe to this run's rank 0
        except (EOFError, OSError):
            os._exit(0)
        try:
            answer = True, do(verb, arguments)
        except Exception as error:
            traceback.print_exc()
            answer = False, f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        end.send_bytes(pickle.dumps(answer))
        if not answer[0]:
            end.close()
            os._exit(1)  # closes the connections that the other ranks may be waiting on


def _end_with_rank_0(held: int) -> None:
    os.read(held, 1)
    os._exit(1)


class ReplicatedTraining(TrainingLoop):
    """Rank 0's loop and, through the team, everybody else's, each on its slice of every batch.

    Losses and metrics are means over ranks, whose slices are equal; batch statistics of a layer are each rank's own,
    and rank 0's are kept, as in PyTorch's DistributedDataParallel.
    """

    window_seconds = 1.0  # a call wakes every rank

    def __init__(self, team: Team, loop: TrainingLoop, model: Any, replicas: int) -> None:
        self._team, self._loop, self._model, self._replicas = team, loop, model, replicas
        self.whole_epochs = loop.whole_epochs

    def run(self, batches: np.ndarray) -> Means:
        """Train on all ranks and wait for all of them."""
        slices = np.split(batches, self._replicas, axis=1)
        own = [(part, self._rate()) for part in slices[1:]]
        means = self._team.together("run", lambda: self._loop.run(slices[0]), own=own)
        metrics = [mean.metric for mean in means if mean.metric is not None]
        return Means(float(np.mean([mean.loss for mean in means])), float(np.mean(metrics)) if metrics else None)

    def _rate(self) -> float | None:
        """Callbacks change rank 0's learning rate between two calls; a schedule (None) goes by itself."""
        import keras

        schedule = keras.optimizers.schedules.LearningRateSchedule
        optimizer = getattr(self._model.optimizer, "inner_optimizer", self._model.optimizer)
        return None if isinstance(optimizer._learning_rate, schedule) else float(optimizer.learning_rate)

    def reset(self) -> None:
        """Every rank goes back to the values that all began with."""
        self._team.together("reset", self._loop.reset)

    def evaluate(self) -> Means:
        """On rank 0."""
        return self._loop.evaluate()

    def predict(self, index: np.ndarray) -> np.ndarray:
        """On rank 0."""
        return self._loop.predict(index)

    def publish(self) -> None:
        """Rank 0's Keras model."""
        self._loop.publish()

    def adopt(self) -> None:
        """Every rank goes on from what rank 0's Keras model holds."""
        self._team.together("adopt", self._loop.adopt, self._model.get_weights())


class ReplicatedOperation:
    """The same operation on every rank, each on operands of its own; done when the last rank is."""

    def __init__(self, team: Team, loop: OperationLoop) -> None:
        self._team, self._loop = team, loop

    def run(self, steps: int) -> None:
        """Run on all ranks and wait for all of them."""
        self._team.together("operate", lambda: self._loop.run(steps), steps)
