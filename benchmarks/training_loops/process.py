"""One way of training in a process of its own: `python -m benchmarks.training_loops.process WAY BATCH STEPS`.

It says so when it is warm; then every line that it is sent makes it train so many steps and answer a step's seconds.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from benchmarks.training_loops.fit import fit_on_arrays, images, tuned_fit

ROOT = Path(__file__).parents[2]
WARM_UP_STEPS = 4
ANSWER = "a step takes "


def request_of(way: str, batch: int) -> dict[str, Any]:
    """The run that a way stands for; "epoch, mixed_bfloat16, jax, without VARIABLE" is on another backend."""
    from backends.scenario import REQUEST

    named = [word for word in way.split(", ")[1:] if not word.startswith("without ")]
    precision, backend = [*named, *["float32", "tensorflow"][len(named) :]]
    return {**REQUEST, "batch_size": batch, "precision": precision, "backend": backend}


def warmed(way: str, batch: int, steps: int) -> Callable[[], float]:
    """One way of training in this process, warm; a call trains so many steps and returns the seconds of one."""
    from whichdevice.measure.backends import backend_class
    from whichdevice.measure.record import Request
    from whichdevice.models.loading import Model
    from whichdevice.models.workloads.base import Options

    request = Request(**request_of(way, batch))
    by_keras = {"fit": fit_on_arrays, "tuned fit": tuned_fit, "epoch": None}[way.split(",")[0]]
    backend = backend_class(request.backend)(request, threads=int(os.environ["OMP_NUM_THREADS"]))
    backend.start()
    backend.initialise()
    workload: Any = Model.read("mnist_cnn").workload(Options(batch, request.precision, 1.0, None))
    if by_keras is None:
        with backend.scope():
            model = workload.model()
        loop = backend.training_loop(workload, model, *workload.splits(images(batch, steps)))
        order = workload.order(batch * steps, 1)

        def train(count: int) -> float:
            batches, began = order.take(count), time.perf_counter()
            loop.run(batches)
            return time.perf_counter() - began
    else:
        train = by_keras(workload, batch, steps)
    train(1)
    train(steps if by_keras else WARM_UP_STEPS)  # `fit` traces its execution of all steps here
    return lambda: train(steps) / steps


class Trainer:
    """The same in a process of its own, with the environment that a run of this project has; it waits to be asked."""

    def __init__(self, way: str, batch: int, steps: int) -> None:
        command = [sys.executable, "-m", "benchmarks.training_loops.process", way, str(batch), str(steps)]
        self._way = way
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 closed by __exit__
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **environment_of(way, batch)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        try:
            self._answer()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def step_time(self) -> float:
        """Train; returns seconds a step."""
        assert self._process.stdin
        with suppress(BrokenPipeError):  # it has ended, of which there is no answer
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> float:
        assert self._process.stdout
        for line in self._process.stdout:  # libraries may print as well
            if line.startswith(ANSWER):
                return float(line.removeprefix(ANSWER))
        self._errors.seek(0)
        raise SystemExit(f"{self._way}: ended with status {self._process.wait()}: {self._errors.read()[-2000:]}")


def environment_of(way: str, batch: int) -> dict[str, str]:
    """The variables of a way: a run's own, for this project's loop with its settings."""
    from whichdevice.base.cpu import thread_environment, usable_cores
    from whichdevice.measure.backends import backend_class
    from whichdevice.measure.record import Request

    request, threads = Request(**request_of(way, batch)), usable_cores()
    ours = backend_class(request.backend).environment(request, threads) if way.startswith("epoch") else {}
    ours = {name: value for name, value in ours.items() if f"without {name}" not in way}
    plain = {"KERAS_BACKEND": request.backend, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    path = {"PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in (".", "scripts", "tests"))}
    return {**thread_environment(threads), **plain, **ours, **path}


def main() -> None:
    """Warm up, then train whenever a line comes."""
    train = warmed(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    print(f"{ANSWER}0", flush=True)
    for _ in sys.stdin:
        print(f"{ANSWER}{train()}", flush=True)


if __name__ == "__main__":
    main()
