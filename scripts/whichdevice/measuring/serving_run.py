"""One run of a prediction service: cold start, throughput, latency by number of clients, and what they are made of.

Server and model run in this, the measured process; the clients in another one of the same host. The weights are the
initial ones: how long a prediction takes does not depend on them, and so no run waits for another that learns.
"""

import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.backends.base import Backend
from whichdevice.errors import StudyError
from whichdevice.host.affinity import usable_cores
from whichdevice.measuring.events import Emitter
from whichdevice.measuring.memory_need import FRAMEWORK_BYTES
from whichdevice.measuring.refusal import refuse_what_cannot_fit
from whichdevice.measuring.serving_inputs import request_body, request_inputs
from whichdevice.measuring.timing import time_steps
from whichdevice.records.facts import WorkloadFacts
from whichdevice.records.request import Request
from whichdevice.records.timings import Latencies, Serving
from whichdevice.serving.saved_model import ServedModel, write_saved_model
from whichdevice.workloads.base import ServedWorkload, TrainingWorkload
from whichdevice.workloads.costs import Costs, model_costs, output_shape

WEIGHTS = "initial ones, not trained: latency does not depend on them"
WARM_UP_SHARE = 0.25  # of request.seconds, before each load, not counted
LEAST_REQUESTS = 100  # of a load, so that a 99th percentile has at least one request above it
WINDOW_SECONDS = 0.5  # long against the wait for the last of many clients
NAME = "model"


def run_serving(
    backend: Backend, workload: ServedWorkload, request: Request, memory_limit: float, emit: Emitter
) -> None:
    """Measure and send everything but the end."""
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        raise StudyError("serving needs packages that this environment lacks: sh envs/extra.sh serve")
    served = workload.served
    began = time.perf_counter()
    with backend.scope():
        model = served.model()
    served.check_options()
    built = time.perf_counter() - began
    inputs = request_inputs(served, served.raw_input(model), request)
    example = served.example_shape(model)
    costs = model_costs(model, example=example)
    emit.part("workload", _facts(inputs, output_shape(model, example), costs))
    refuse_what_cannot_fit(FRAMEWORK_BYTES + 12 * costs.parameters, memory_limit)
    with tempfile.TemporaryDirectory() as scratch:
        began = time.perf_counter()
        loaded = _loaded(served, model, Path(scratch) / "saved_model")
        emit.part("cold", {"build": built + time.perf_counter() - began})
        _serve(loaded, inputs, costs, request, Path(scratch) / "body.json", emit)


def _loaded(served: TrainingWorkload, model: Any, folder: Path) -> ServedModel:
    write_saved_model(served, model, folder)
    return ServedModel(folder)


def _serve(loaded: ServedModel, inputs: np.ndarray, costs: Costs, request: Request, body: Path, emit: Emitter) -> None:
    from whichdevice.serving.application import BARE, Limits, application
    from whichdevice.serving.load_process import LoadProcess, load_process
    from whichdevice.serving.server import background_server

    body.write_text(request_body(inputs), encoding="utf-8")
    clients, most, path = request.clients, max(request.clients), f"/v1/models/{NAME}:predict"
    size = body.stat().st_size
    limits = Limits(len(inputs), size, usable_cores(), waiting=most)  # none of our own is sent away

    def load(process: LoadProcess, address: str, count: int) -> Latencies:
        process.load(address, body, count, seconds=WARM_UP_SHARE * request.seconds)
        answers = process.load(address, body, count, seconds=request.seconds, requests=LEAST_REQUESTS)
        if not answers.latencies:
            raise StudyError(f"serving: no request was answered: {answers.reason}")
        return latencies(count, answers.latencies, answers.seconds, answers.failed, answers.reason)

    with background_server(application({NAME: loaded}, limits)) as port, load_process(port) as process:
        time_steps(
            lambda steps: partial(_answered, process, path, body, most, steps),
            request,
            request.batch_size,
            (costs.forward_flops or 0.0) * request.batch_size,
            0,
            emit,
            WINDOW_SECONDS,
        )
        emit.progress("latency")
        found = Serving(
            model=request.model or "",
            weights=WEIGHTS,
            request_bytes=size,
            response_bytes=_response_bytes(loaded.predict(inputs)),
            workers=limits.workers,
            bare_call=called(lambda: loaded.predict(inputs), request.seconds),
            bare_http=load(process, BARE, 1),
            loads=[load(process, path, count) for count in clients],
        )
    emit.part("serving", found)


def _answered(process: Any, path: str, body: Path, clients: int, requests: int) -> None:
    """So many predictions; one that was not answered must not count as a fast one."""
    answers = process.load(path, body, clients, requests=requests)
    if answers.failed:
        raise StudyError(f"serving: {answers.failed} of {requests} requests were not answered: {answers.reason}")


def _facts(inputs: np.ndarray, output: list[int], costs: Costs) -> WorkloadFacts:
    return WorkloadFacts(
        unit="prediction",
        input_shape=list(inputs.shape),
        target_shape=[len(inputs), *output],
        parameters=costs.parameters,
        trainable_parameters=costs.trainable_parameters,
        flops_per_step=(costs.forward_flops or 0.0) * len(inputs),
        flops_counted=costs.counted,
        estimated_memory=FRAMEWORK_BYTES + 12 * costs.parameters,  # weights as built, as written and as loaded
    )


def _response_bytes(predictions: np.ndarray) -> int:
    return len(json.dumps({"predictions": predictions.tolist()}))


def called(call: Callable[[], object], seconds: float) -> Latencies:
    """The same call again and again, each timed apart; it waits for its result."""
    end = time.perf_counter() + WARM_UP_SHARE * seconds
    while time.perf_counter() < end:
        call()
    found: list[float] = []
    start = time.perf_counter()
    while len(found) < LEAST_REQUESTS or time.perf_counter() < start + seconds:
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return latencies(1, found, time.perf_counter() - start)


def latencies(
    clients: int, found: list[float], seconds: float, failed: int = 0, reason: str | None = None
) -> Latencies:
    """Percentiles of single latencies, in seconds; `found` must not be empty."""
    p50, p90, p99 = (float(value) for value in np.percentile(found, [50, 90, 99]))
    return Latencies(
        clients=clients,
        requests=len(found),
        failed=failed,
        reason=reason,
        seconds=seconds,
        mean=float(np.mean(found)),
        p50=p50,
        p90=p90,
        p99=p99,
        longest=max(found),
    )
