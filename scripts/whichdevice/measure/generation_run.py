"""One run of mode generate: load, build, cold start, then the prompt and single tokens in steady state, each apart.

A step of steady state is one decoding step: a token for each sequence of the batch, which the next one needs. The first
half of each sequence is the prompt. Weights are the initial ones: how long a token takes does not depend on them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.base.events import Emitter
from whichdevice.base.parts import GENERATED_UNIT
from whichdevice.measure.backends.base import Generator
from whichdevice.measure.estimated_memory import ALLOCATOR_SLACK
from whichdevice.measure.inference_run import inference_facts, input_batches
from whichdevice.measure.job import Job, timed_call
from whichdevice.measure.record import Generated, Request
from whichdevice.measure.timing import Budget, find_steady_state, steady_of, time_steps
from whichdevice.models.workloads.base import prompt_length, tokens_of


def run_generation(job: Job) -> None:
    """Measure and send everything but the end."""
    backend, workload, request, emit = job.backend, job.workload, job.request, job.emit
    train, validation, model, load, build = job.load_and_build()
    tokens, made = timed_call(lambda: np.asarray(tokens_of(input_batches(workload, train, request)[0]), np.int32))
    prompt = prompt_length(tokens.shape[1])
    if prompt < 1:
        raise StudyError(f"{request.workload}: sequences of {tokens.shape[1]} token; at least 2 are needed to generate")
    workload.check_options()
    with backend.scope():
        generator, place = timed_call(lambda: backend.generator(workload, model, tokens))
    facts = inference_facts(workload, request, model, train.nbytes + validation.nbytes, job.work)
    facts.unit = GENERATED_UNIT
    facts.estimated_memory += ALLOCATOR_SLACK * 2 * generator.cache_bytes * (request.kind == "cpu")
    job.announce(facts)
    emit.part("cold", {"load": load + made, "build": build + place})
    emit.part("generated", timed_prefill(generator, request, tokens.shape, emit))
    time_steps(lambda steps: partial(generator.decode, steps), request, request.batch_size, emit)


def timed_prefill(generator: Generator, request: Request, shape: tuple[int, ...], emit: Emitter) -> Generated:
    """The prompt's part of the record; `shape` is [batch, length] of the sequences."""
    batch, length = shape
    prompt = prompt_length(length)

    def prepare(steps: int) -> Callable[[], Any]:
        def run() -> None:
            for _ in range(steps):
                generator.prefill()

        return run

    emit.progress("compiling the prompt's program")
    prepare(1)()
    emit.progress("timing the prompt")
    state = find_steady_state(prepare, Budget(request.seconds, request.min_steps))
    return Generated(prompt=prompt, cache_bytes=generator.cache_bytes, prefill=steady_of(state, batch * prompt))
