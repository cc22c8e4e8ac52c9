"""What one step's time goes to, found by leaving parts out: input, host, compute, other. The last thing in a run.

Four things are timed in turn, so that drift hits all alike: the loop as it was timed; the same loop on one batch in
place; the same loop around a model of one weight; one step of that.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from whichdevice.backends.base import Backend, TrainingLoop
from whichdevice.measuring.events import Emitter
from whichdevice.measuring.failure_reason import reason_line
from whichdevice.measuring.steady_state import LONGEST_WINDOW, timed, window_seconds, window_steps
from whichdevice.measuring.step_variants import OneWeight, OnOneBatch
from whichdevice.records.request import Request
from whichdevice.records.timings import Breakdown
from whichdevice.workloads.base import BatchOrder, Split, TrainingWorkload

SHARE = 0.5  # of the time budget of steady state
LEAST_ROUNDS = 3
STEPS_OF_ONE_WEIGHT = 64  # at least: they are quick, and a difference of few would be noise
AS_TIMED, ONE_BATCH, ONE_WEIGHT, ONE_STEP = "as_timed", "one_batch", "one_weight", "one_weight_one_step"
METHOD = (
    "input: as timed, less the same loop on one batch in place. host: {host}. other: what a call of the loop "
    "costs whatever its steps, by the loop around one weight, over the {steps} steps of a call. compute: the rest"
)
HOST_BY_LOOP = "the same loop around a model of one weight"
HOST_BY_GAPS = "time in which no operation ran, by the framework's profiler, whose own work it holds"
Round = dict[str, tuple[int, float]]


def explain_step(
    backend: Backend,
    workload: TrainingWorkload,
    model: Any,
    loop: TrainingLoop,
    train: Split,
    order: BatchOrder,
    request: Request,
    step_time: float,
    emit: Emitter,
) -> None:
    """Send the record's `breakdown`; where it cannot be had, why. `loop` is of no use afterwards."""
    emit.progress("breaking a step down")
    try:
        if request.replicas > 1:
            found = Breakdown(reason="several replicas: not broken down")
        else:
            found = _broken_down(backend, workload, model, loop, train, order, request, step_time)
    except Exception as error:
        if backend.is_out_of_memory(error):
            found = Breakdown(reason="no memory left for it")
        else:
            found = Breakdown(reason=reason_line(error))
    emit.part("breakdown", found)


def _broken_down(
    backend: Backend,
    workload: TrainingWorkload,
    model: Any,
    loop: TrainingLoop,
    train: Split,
    order: BatchOrder,
    request: Request,
    step_time: float,
) -> Breakdown:
    nothing = Split({}, 0)
    variants: dict[str, TrainingLoop] = {AS_TIMED: loop}
    for name, kind in ((ONE_BATCH, OnOneBatch), (ONE_WEIGHT, OneWeight)):
        variant = kind(workload)
        with backend.scope():
            trained = model if name == ONE_BATCH else variant.model()
        data = variant.split(train, order.take(1)[0])
        variants[name] = backend.training_loop(variant, trained, data, nothing)
    steps = steps_at_once(loop, request, step_time)
    for variant_loop in variants.values():
        for count in (1, min(steps, 2)):  # traced and compiled
            variant_loop.run(order.take(count))
    rounds = _rounds(variants, order, steps, request.seconds * SHARE)
    return split_up(rounds, backend.gap_share(partial(variants[ONE_BATCH].run, order.take(steps))))


def steps_at_once(loop: TrainingLoop, request: Request, step_time: float) -> int:
    """As many as a timed window of this run has, at least two; the windows of `fit` are longer than a second."""
    window = min(window_seconds(request.seconds, loop.window_seconds), LONGEST_WINDOW)
    return max(2, window_steps(step_time, window))


def _rounds(variants: Mapping[str, TrainingLoop], order: BatchOrder, steps: int, budget: float) -> list[Round]:
    """Each variant in turn, until the budget is spent; at least LEAST_ROUNDS times."""
    rounds: list[Round] = []
    spent = 0.0

    def seconds(loop: TrainingLoop, count: int) -> float:
        return timed(lambda asked: partial(loop.run, order.take(asked)), count)

    while len(rounds) < LEAST_ROUNDS or spent < budget:
        counts = {name: max(steps, STEPS_OF_ONE_WEIGHT) if name == ONE_WEIGHT else steps for name in variants}
        found = {name: (counts[name], seconds(loop, counts[name])) for name, loop in variants.items()}
        found[ONE_STEP] = (1, seconds(variants[ONE_WEIGHT], 1))
        rounds.append(found)
        spent += sum(took for _, took in found.values())
    return rounds


def split_up(rounds: list[Round], gap_share: float | None = None) -> Breakdown:
    """Parts of a step, in seconds, that add up to the loop's own step time: the median of these rounds.

    `gap_share`: of the step on one batch, when no operation ran, where the framework can tell. A difference that
    noise makes negative is 0, with a note; compute takes what is left.
    """
    steps = rounds[0][AS_TIMED][0]
    seconds = {name: float(np.median([found[name][1] for found in rounds])) for name in rounds[0]}
    step_time = seconds[AS_TIMED] / steps
    each_step = (seconds[ONE_WEIGHT] - seconds[ONE_STEP]) / (rounds[0][ONE_WEIGHT][0] - 1)
    notes: list[str] = []

    def part(name: str, value: float, left: float) -> float:
        if value < 0:
            notes.append(f"{name} came out as {value:.2g} s, within noise: taken as 0")
        elif value > left:
            notes.append(f"{name} came out as {value:.2g} s, more than was left of the step: cut")
        return float(np.clip(value, 0, left))

    left = step_time
    host = part("host", each_step if gap_share is None else gap_share * seconds[ONE_BATCH] / steps, left)
    other = part("other", (seconds[ONE_STEP] - each_step) / steps, left := left - host)
    fed = part("input", (seconds[AS_TIMED] - seconds[ONE_BATCH]) / steps, left := left - other)
    return Breakdown(
        method=METHOD.format(host=HOST_BY_LOOP if gap_share is None else HOST_BY_GAPS, steps=steps),
        step_time=step_time,
        input=fed,
        host=host,
        compute=left - fed,
        other=other,
        rounds=rounds,
        notes=notes,
    )
