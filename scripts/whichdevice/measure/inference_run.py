"""One run of mode predict: load, build, cold start, throughput in steady state, and the latency of every call in it.

A step is one call: a batch of the model's inputs goes in as NumPy arrays in host memory, and the next call begins when
the predictions are back there. Weights are the initial ones: how long a prediction takes does not depend on them.
"""

import time
from array import array
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.measure.backends.base import Forward
from whichdevice.measure.estimated_memory import inference_memory
from whichdevice.measure.job import Job, StepWork, timed_call
from whichdevice.measure.record import PREDICTION, Latency, Request, WorkloadFacts
from whichdevice.measure.timing import time_steps
from whichdevice.measure.training_run import model_facts
from whichdevice.models.shapes import Tree, leaves, mapped
from whichdevice.models.without_keras import NativeFile
from whichdevice.models.workloads.base import Split, TrainingWorkload

MIN_CALLS = 200  # timed one by one, where they take no longer than a second time budget
MIN_FOR_P99 = 100  # calls, so that at least one is above it
MAX_BATCHES, MAX_BYTES = 16, 256 * 2**20  # of inputs, made before the clock and used in turn


def run_inference(job: Job) -> None:
    """Measure and send everything but the end."""
    backend, workload, request, emit = job.backend, job.workload, job.request, job.emit
    train, validation, model, load, build = job.load_and_build()
    facts = inference_facts(workload, request, model, train.nbytes + validation.nbytes, job.work)
    job.announce(facts)
    batches, made = timed_call(lambda: input_batches(workload, train, request))
    workload.check_options()
    with backend.scope():
        forward, place = timed_call(lambda: backend.forward_pass(model))
    emit.part("cold", {"load": load + made, "build": build + place})
    calls = Calls(forward, batches)
    steady = time_steps(calls.prepare, request, request.batch_size, emit)
    emit.progress("latency")
    emit.part("latency", latency_of(calls.latencies(steady.steps, request.seconds)))


def inference_facts(
    workload: TrainingWorkload, request: Request, model: Any, data_bytes: float, work: StepWork
) -> WorkloadFacts:
    """Return the facts of the forward pass alone, at the request's batch size."""
    facts = model_facts(workload, request, model, work)
    facts.unit = PREDICTION
    facts.estimated_memory = inference_memory(facts.parameters, work.between, request, data_bytes)
    return facts


def input_batches(workload: TrainingWorkload, train: Split, request: Request) -> list[Tree]:
    """Batches of the model's inputs from random training examples, in host memory; the same on every backend.

    Each is an array, or a tuple or dict of arrays.
    """
    if train.examples < 1:
        raise StudyError(f"{request.workload}: there are no examples to predict")
    random = np.random.default_rng(request.seed)
    if isinstance(workload, NativeFile):
        size = train.examples, request.batch_size
        return [workload.host_inputs(train, random.integers(0, *size, dtype=np.int32)) for _ in range(MAX_BATCHES)]
    import keras

    with keras.device("cpu"):
        arrays = {name: keras.ops.convert_to_tensor(np.asarray(values)) for name, values in train.arrays.items()}

        def drawn() -> Tree:
            index = random.integers(0, train.examples, request.batch_size, dtype=np.int32)
            inputs = workload.batch(arrays, keras.ops.convert_to_tensor(index))[0]
            return mapped(lambda leaf: np.ascontiguousarray(keras.ops.convert_to_numpy(leaf)), inputs)

        first = drawn()
        others = min(MAX_BATCHES, MAX_BYTES // max(1, sum(leaf.nbytes for leaf in leaves(first)))) - 1
        return [first, *(drawn() for _ in range(others))]


class Calls:
    """Calls of a forward pass, one after the other, each timed."""

    def __init__(self, forward: Forward, batches: Sequence[Tree]) -> None:
        self._forward, self._batches = forward, cycle(batches)
        self._seconds = array("d")

    def prepare(self, steps: int) -> Callable[[], None]:
        """Return what runs the next `steps` calls. Raises StudyError where the first one predicts what is no number."""

        def run() -> None:
            for _ in range(steps):
                is_first = not self._seconds
                predictions = self._call()
                if is_first and not all(np.isfinite(leaf).all() for leaf in leaves(predictions)):
                    raise StudyError("the first predictions are not finite: look at the data and the initial weights")

        return run

    def _call(self) -> Tree:
        inputs = next(self._batches)
        began = time.perf_counter()
        predictions = self._forward(inputs)
        self._seconds.append(time.perf_counter() - began)
        return predictions

    def latencies(self, steady_steps: int, seconds: float) -> np.ndarray:
        """Return the seconds of each call of steady state; for `seconds` at most, more are added up to MIN_CALLS."""
        first, end = len(self._seconds) - steady_steps, time.perf_counter() + seconds
        while len(self._seconds) - first < MIN_CALLS and time.perf_counter() < end:
            self._call()
        return np.array(self._seconds[first:])


def latency_of(seconds: np.ndarray) -> Latency:
    """Percentiles of single calls, float [calls]; there must be one at least."""
    p50, p99 = (float(value) for value in np.percentile(seconds, [50, 99]))
    return Latency(calls=len(seconds), p50=p50, p99=p99 if len(seconds) >= MIN_FOR_P99 else None)
