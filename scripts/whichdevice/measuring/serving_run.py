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
from whichdevice.measuring.timing import time_steps
from whichdevice.records.facts import WorkloadFacts
from whichdevice.records.request import Request
from whichdevice.records.timings import Latencies, Serving
from whichdevice.workloads.base import ServedWorkload, TrainingWorkload
from whichdevice.workloads.costs import Costs, model_costs

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
    served, clients = workload.served, request.clients
    began = time.perf_counter()
    with backend.scope():
        model = served.model()
    costs = model_costs(model, served.options.sequence_length or served.recipe.sequence_length)
    emit.part("workload", _facts(served, model, costs, request))
    refuse_what_cannot_fit(FRAMEWORK_BYTES + 12 * costs.parameters, memory_limit)
    with tempfile.TemporaryDirectory() as scratch:
        _serve(served, model, costs, request, Path(scratch), began, clients, emit)


def _serve(
    served: TrainingWorkload,
    model: Any,
    costs: Costs,
    request: Request,
    scratch: Path,
    began: float,
    clients: list[int],
    emit: Emitter,
) -> None:
    from whichdevice.serving.application import BARE, Limits, application
    from whichdevice.serving.load_process import LoadProcess, load_process
    from whichdevice.serving.saved_model import ServedModel, write_saved_model
    from whichdevice.serving.server import background_server

    write_saved_model(served, model, scratch / "saved_model")
    loaded = ServedModel(scratch / "saved_model")
    emit.part("cold", {"build": time.perf_counter() - began})
    inputs = _inputs(served, model, request)
    body = scratch / "body.json"
    body.write_text(json.dumps({"instances": inputs.tolist()}), encoding="utf-8")
    limits = Limits(workers=usable_cores(), waiting=max(clients))  # none of our own is sent away
    path = f"/v1/models/{NAME}:predict"

    def load(process: LoadProcess, address: str, count: int) -> Latencies:
        process.load(address, body, count, seconds=WARM_UP_SHARE * request.seconds)
        answers = process.load(address, body, count, seconds=request.seconds, requests=LEAST_REQUESTS)
        if not answers.latencies:
            raise StudyError(f"serving: no request was answered: {answers.reason}")
        return latencies(count, answers.latencies, answers.seconds, answers.failed, answers.reason)

    with background_server(application({NAME: loaded}, limits)) as port, load_process(port) as process:
        most = max(clients)
        time_steps(
            lambda steps: partial(_answered, process, path, body, most, steps),
            request,
            request.batch_size,
            costs.forward_flops * request.batch_size,
            0,
            emit,
            WINDOW_SECONDS,
        )
        emit.progress("latency")
        found = Serving(
            model=request.model or "",
            weights=WEIGHTS,
            request_bytes=body.stat().st_size,
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


def _facts(served: TrainingWorkload, model: Any, costs: Costs, request: Request) -> WorkloadFacts:
    length = served.sequence_length if served.recipe.sequence_length else 1
    raw, size = served.raw_input(model), request.batch_size
    return WorkloadFacts(
        unit="prediction",
        input_shape=[size, *(extent or length for extent in raw.shape)],
        target_shape=[size, *(extent or length for extent in model.outputs[0].shape[1:])],
        parameters=costs.parameters,
        trainable_parameters=costs.trainable_parameters,
        flops_per_step=costs.forward_flops * size,
        estimated_memory=FRAMEWORK_BYTES + 12 * costs.parameters,  # weights as built, as written and as loaded
    )


def _inputs(served: TrainingWorkload, model: Any, request: Request) -> np.ndarray:
    """Random raw inputs of one request, of the signature's type."""
    raw = served.raw_input(model)
    length = served.sequence_length if served.recipe.sequence_length else 1
    shape = (request.batch_size, *(extent or length for extent in raw.shape))
    random = np.random.default_rng(request.seed)
    if np.dtype(raw.dtype).kind == "f":
        return random.random(shape).round(4).astype(raw.dtype)
    return random.integers(0, raw.below or min(256, np.iinfo(raw.dtype).max + 1), shape).astype(raw.dtype)


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
