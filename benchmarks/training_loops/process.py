"""One way of training in a process of its own: `python -m benchmarks.training_loops.process WAY BATCH STEPS`."""

import importlib
import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.training_loops.fit import fit_on_arrays, images, tuned_fit

ROOT = Path(__file__).parents[2]
WARM_UP_STEPS = 4
PLAIN = "plain kernels"


def request_of(way: str, batch: int) -> dict[str, Any]:
    """The run that a way stands for; "epoch, mixed_bfloat16, jax, without VARIABLE" is on another backend."""
    from backends.scenario import REQUEST

    named = [word for word in way.split(", ")[1:] if not word.startswith("without ") and word != PLAIN]
    precision, backend = [*named, *["float32", "tensorflow"][len(named) :]]
    return {**REQUEST, "batch_size": batch, "precision": precision, "backend": backend}


def leave_keras_its_kernels(backend: str) -> None:
    """The loop as it is, without this project's kernels for CPUs."""
    training: Any = importlib.import_module(f"whichdevice.backends.{backend}_training")
    training.quick_kernels = lambda *_: nullcontext()


def one_process(way: str, batch: int, steps: int) -> float:
    """Seconds a step of one way of training, in this process."""
    from whichdevice.backends import backend_class
    from whichdevice.records.request import Request
    from whichdevice.workloads import workload_class
    from whichdevice.workloads.base import Options

    request = Request(**request_of(way, batch))
    backend = backend_class(request.backend)(request, threads=int(os.environ["OMP_NUM_THREADS"]))
    if PLAIN in way:
        leave_keras_its_kernels(request.backend)
    backend.start()
    backend.initialise()
    workload: Any = workload_class("mnist_cnn")(Options(batch, request.precision, 1.0, None))
    kind = way.split(",")[0]
    if kind == "epoch":
        with backend.scope():
            model = workload.model()
        loop = backend.training_loop(workload, model, *workload.splits(images(batch, steps)))
        order = workload.order(batch * steps, 1)

        def train(count: int) -> float:
            batches, began = order.take(count), time.perf_counter()
            loop.run(batches)
            return time.perf_counter() - began
    else:
        train = {"fit": fit_on_arrays, "tuned fit": tuned_fit}[kind](workload, batch, steps)
    train(1)
    train(WARM_UP_STEPS if kind == "epoch" else steps)  # `fit` traces its execution of all steps here
    return train(steps) / steps


def in_process(way: str, batch: int, steps: int) -> float:
    """The same in a process of its own, with the environment that a run of this project has."""
    from whichdevice.backends import backend_class
    from whichdevice.host.affinity import thread_environment, usable_cores
    from whichdevice.records.request import Request

    request, threads = Request(**request_of(way, batch)), usable_cores()
    ours = backend_class(request.backend).environment(request, threads) if way.startswith("epoch") else {}
    ours = {name: value for name, value in ours.items() if f"without {name}" not in way}
    plain = {"KERAS_BACKEND": request.backend, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    path = {"PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in (".", "scripts", "tests"))}
    command = [sys.executable, "-m", "benchmarks.training_loops.process", way, str(batch), str(steps)]
    done = subprocess.run(
        command,
        env={**os.environ, **thread_environment(threads), **plain, **ours, **path},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{way}: {done.stderr[-2000:]}")
    return float(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    print(json.dumps(one_process(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
