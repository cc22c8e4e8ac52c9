"""One run of a training workload: load, build, cold and steady steps, learning, artefacts."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whichdevice.backends.base import Backend, TrainingLoop
from whichdevice.datasets.store import load_dataset
from whichdevice.measuring.breakdown import explain_step
from whichdevice.measuring.events import Emitter
from whichdevice.measuring.first_step import FirstStepWatched
from whichdevice.measuring.learning import learn
from whichdevice.measuring.made_data import made_data
from whichdevice.measuring.recorded_predictions import RecordedPredictions
from whichdevice.measuring.refusal import built_within, refuse_what_cannot_fit
from whichdevice.measuring.timing import time_steps
from whichdevice.measuring.workload_facts import workload_facts
from whichdevice.records.request import Request
from whichdevice.records.timings import Epoch
from whichdevice.workloads.base import Split, TrainingWorkload
from whichdevice.workloads.costs import COUNTS

PROFILED_STEPS = 5


def run_training(
    backend: Backend,
    workload: TrainingWorkload,
    request: Request,
    dataset: Path | None,
    folder: Path,
    memory_limit: float,
    emit: Emitter,
) -> Callable[[], None] | None:
    """Measure and send everything but the end; artefacts go to `folder`. Without a dataset the workload has its own.

    Returns what sends the breakdown, if any is asked for: it builds programs of its own, with settings of their own.
    """
    train, validation, model, load, build = load_and_build(backend, workload, request, dataset, memory_limit, emit)
    facts, costs = workload_facts(backend, workload, request, model, train, validation, COUNTS)
    emit.part("workload", facts)
    refuse_what_cannot_fit(facts.estimated_memory, memory_limit)
    loop, place = timed_call(lambda: backend.training_loop(workload, model, train, validation))
    workload.check_options()
    emit.part("cold", {"load": load + place, "build": build})

    order = workload.order(train.examples, request.seed)
    watched = FirstStepWatched(loop, order)
    steady = time_steps(
        watched,
        request,
        request.batch_size,
        costs.step_flops(request.batch_size),
        facts.steps_per_epoch,
        emit,
        loop.window_seconds,
    )
    if watched.lost is not None:
        lost = f"the loss is no number after {watched.lost} steps: these are times of a model that learns nothing"
        emit.part("workload", {"remarks": [*facts.remarks, lost]})
    step_time = steady.seconds / steady.steps
    if request.profile:
        with backend.trace(folder / "profile"):
            loop.run(order.take(PROFILED_STEPS))
        files = [path for kind in ("*.pb", "*.pt.trace.json") for path in (folder / "profile").rglob(kind)]
        profiles = [path.relative_to(folder).as_posix() for path in files]
        emit.part("artefacts", {"profile": profiles[0]} if profiles else {})
    if request.learn:
        fresh = workload.order(train.examples, request.seed)
        epochs = learn(loop, workload, model, request, fresh, facts.steps_per_epoch, step_time, folder, emit)
        results = _final_results(epochs, workload, request)
        _keep_artefacts(loop, workload, model, validation, folder, results, emit)
    if not request.breakdown:
        return None
    return partial(explain_step, backend, workload, model, loop, train, order, request, step_time, emit)


class Built(NamedTuple):
    """Data and model of a run, and the seconds that each took."""

    train: Split
    validation: Split
    model: Any
    load: float
    build: float


def load_and_build(
    backend: Backend,
    workload: TrainingWorkload,
    request: Request,
    dataset: Path | None,
    memory_limit: float,
    emit: Emitter,
) -> Built:
    """Data and model; sends what the data are where they come with the workload."""
    emit.progress("loading data")
    splits, load = timed_call(lambda: workload.splits(load_dataset(dataset).arrays if dataset is not None else {}))
    if dataset is None:
        emit.part("data", made_data(workload, request.workload, *splits))
    emit.progress("building the model")
    limit = memory_limit if request.kind == "cpu" else None
    with backend.scope():
        model, build = timed_call(lambda: built_within(limit, workload.model))
    return Built(splits[0], splits[1], model, load, build)


def timed_call(call: Callable[[], Any]) -> tuple[Any, float]:
    """What the call returns, and its seconds."""
    began = time.perf_counter()
    value = call()
    return value, time.perf_counter() - began


def _final_results(epochs: list[Epoch], workload: TrainingWorkload, request: Request) -> dict[str, Any]:
    """What the kept model reaches: that of the last epoch, or of the best one where callbacks keep the best."""
    kept = epochs[-1]
    if workload.best_weights() is not None and request.validation:
        losses = [np.inf if epoch.validation_loss is None else epoch.validation_loss for epoch in epochs]
        kept = epochs[int(np.argmin(np.nan_to_num(losses, nan=np.inf, posinf=np.inf)))]
    named: dict[str, Any] = {"epoch": kept.epoch, "loss": kept.loss, "validation_loss": kept.validation_loss}
    if workload.metric is not None:
        named |= {f"training_{workload.metric}": kept.metric, f"validation_{workload.metric}": kept.validation_metric}
    return {name: value for name, value in named.items() if value is not None}


def _keep_artefacts(
    loop: TrainingLoop,
    workload: TrainingWorkload,
    model: Any,
    validation: Split,
    folder: Path,
    results: dict[str, Any],
    emit: Emitter,
) -> None:
    emit.progress("predicting")
    recorded = RecordedPredictions(loop.predict)
    outcome = workload.outcome(recorded, validation)
    emit.part("results", {**results, **outcome.results})
    files = {"weights": "model.weights.h5", "examples": recorded.write(folder, validation.examples)}
    model.save_weights(folder / files["weights"])
    if (best := workload.best_weights()) is not None:
        best.unlink()  # the same weights, loaded after learning
    for name, arrays in outcome.arrays.items():
        files[name] = f"{name}.npz"
        np.savez_compressed(folder / files[name], **arrays)  # type: ignore[arg-type]  # stubs take the flag for an array
    for name, document in outcome.documents.items():
        files[name] = f"{name}.json"
        (folder / files[name]).write_text(json.dumps(document, indent=1), encoding="utf-8")
    emit.part("artefacts", files)
