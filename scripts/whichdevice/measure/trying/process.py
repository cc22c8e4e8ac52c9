"""The trying process: a few steps of each workload of a job. `python -m whichdevice.measure.trying.process`.

The job file holds the requests, the batch size that each study would take, threads and a memory limit. What is found is
sent by request: parts named by its place in the job, each with a status and a reason at the end.
"""

import sys
from functools import partial
from math import isfinite
from typing import IO, Any

import numpy as np
from pydantic import BaseModel

from whichdevice.base.errors import StudyError
from whichdevice.base.events import Emitter, built_within, refuse_what_cannot_fit, run_to_end
from whichdevice.base.processes import supervised_job
from whichdevice.measure.backends import backend_class
from whichdevice.measure.backends.base import Backend
from whichdevice.measure.estimated_memory import estimated_memory
from whichdevice.measure.record import Request
from whichdevice.measure.training_run import own_formats, with_finite_loss, workload_facts
from whichdevice.models.consistency import shown
from whichdevice.models.datasets.base import get_dataset
from whichdevice.models.loading import Model
from whichdevice.models.model_file import overridden
from whichdevice.models.shapes import Tree, named
from whichdevice.models.workloads.base import TrainingWorkload

TRIED_STEPS = 6  # on one batch, so that any model that learns at all shows it
STANDIN_SEED = 1


class OfRequest(Emitter):
    """Sends what one request of several came to under its number."""

    def __init__(self, stream: IO[str], number: int) -> None:
        super().__init__(stream)
        self._place = str(number)

    def part(self, place: str, value: BaseModel | dict[str, Any]) -> None:
        """A part of what was found for this request."""
        values = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        super().part(self._place, {place: values})

    def end(self, status: str, reason: str | None = None) -> None:
        """Report the end of this request, not of the process."""
        super().part(self._place, {"status": status, "reason": reason})


def main() -> int:
    """Try every request of the job, whatever becomes of the ones before."""
    job, stream = supervised_job()
    requests = [Request.model_validate(request) for request in job["requests"]]
    models = [Model.read(request.module) for request in requests]
    backend = backend_class(requests[0].backend, models[0].framework)(requests[0], job["threads"])
    backend.start()
    backend.initialise()
    for number, (model, request) in enumerate(zip(models, requests, strict=True)):
        emit, backend.request = OfRequest(stream, number), request  # of its own loop
        work = partial(try_workload, backend, model, request, job["memory_limit"], emit)
        run_to_end(work, backend, model, emit)
    Emitter(stream).end("ok")
    return 0


def try_workload(backend: Backend, model: Model, request: Request, memory_limit: float, emit: Emitter) -> None:
    """Data, model, a few steps on one small batch, a prediction; facts are of the model's own batch size."""
    in_study = request.model_copy(update={"batch_size": model.recipe.batch_size})
    workload, studied = (model.asked(asked) for asked in (request, in_study))
    if not isinstance(workload, TrainingWorkload) or not isinstance(studied, TrainingWorkload):
        raise StudyError(f"{request.module}: no training workload; only those are tried")
    emit.progress("loading data")
    arrays = get_dataset(workload.dataset).standin(STANDIN_SEED) if workload.dataset else {}
    train, validation = workload.splits(arrays)
    studied.steps_per_epoch(train.examples)
    emit.progress("building the model")
    with backend.scope():
        built = built_within(memory_limit, workload.model)
    emit.progress("counting operations")
    facts, costs = workload_facts(backend, workload, in_study, built, train, validation)
    emit.part("workload", facts)
    kind = getattr(built, "kind", type(built).__name__)
    emit.part("model", {"kind": kind, "inputs": _shapes(workload.example(built)), "step": _step_words(workload, built)})
    emit.part(
        "model", {"outputs": _shapes(workload.outputs(built)), "precision": own_formats(built, request.precision)}
    )
    emit.part("model", {"doubts": workload.doubts(built)})
    emit.part("model", {"forward_flops": costs.forward_flops, "training_flops": costs.training_flops})
    need = estimated_memory(costs, request, train.nbytes + validation.nbytes, backend.activation_copies)
    refuse_what_cannot_fit(need, memory_limit)
    emit.progress("compiling the first step")
    loop = backend.training_loop(workload, built, train, validation)
    workload.check_options()
    batch = workload.order(train.examples, request.seed).take(1)
    losses = [with_finite_loss(loop.run(batch)).loss]
    emit.progress("training")
    losses += [loop.run(batch).loss for _ in range(TRIED_STEPS - 1)]
    emit.part("losses", {"of_steps": [loss if isfinite(loss) else None for loss in losses]})
    if not isfinite(losses[-1]):
        first = next(number for number, loss in enumerate(losses, 1) if not isfinite(loss))
        raise StudyError(f"the loss is {losses[first - 1]} after {first} steps on one batch: try a lower rate")
    if workload.outputs(built) is None:  # nothing to call
        return
    emit.progress("predicting")
    prediction = loop.predict(np.arange(min(2, validation.examples), dtype=np.int32))
    if not np.isfinite(prediction).all():
        raise StudyError("predictions are not finite after a few steps")


def _shapes(tree: Tree) -> list[str]:
    """Return each array of a tree in words: `token_ids int32 (128,)`."""
    return [
        " ".join([*([key.strip("/").replace("#", "")] if key else []), array.dtype, shown(array.shape)])
        for key, array in named(tree, "").items()
    ]


def _step_words(workload: TrainingWorkload, model: Any) -> list[str]:
    """Methods of training that are the model's own."""
    return overridden(model) if workload.own_step(model) else []


if __name__ == "__main__":
    sys.exit(main())
