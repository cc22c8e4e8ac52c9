"""The timed part of any run: cold first step, warm-up, steady state, each as parts of the record."""

import time
from collections.abc import Callable
from itertools import count

from whichdevice.backends.base import WINDOW_SECONDS
from whichdevice.machine import gpu
from whichdevice.measuring.events import Emitter
from whichdevice.measuring.steady_state import (
    Budget,
    PrepareSteps,
    SteadyState,
    Window,
    find_steady_state,
    timed,
)
from whichdevice.records.schema import Request, Steady


def time_steps(
    prepare: PrepareSteps,
    request: Request,
    units_per_step: float,
    flops_per_step: float | None,
    steps_per_epoch: int,
    emit: Emitter,
    window: float = WINDOW_SECONDS,
) -> Steady:
    """Cold and steady times of any repeated step; sends both and returns the steady state."""
    emit.progress("compiling")
    emit.part("cold", {"first_step": timed(prepare, 1)})

    names = (f"window {number}" for number in count(1))

    def tell(step_time: float, seconds_left: float) -> None:
        emit.progress("timing", step_time=step_time, seconds_left=seconds_left)
        emit.energy_part(next(names))

    def warmed(windows: list[Window]) -> None:
        emit.part("cold", {"warm_up": windows})  # known even if the run is cut short

    budget = Budget(request.seconds, request.min_steps, max(0, steps_per_epoch - 1))
    emit.timed_windows()
    emit.energy_part(next(names))
    found = find_steady_state(planted(prepare, request.slowdown), budget, warmed, tell, window)
    emit.timed_windows()
    _tell_energy(len(found.warm_up), len(found.windows), emit)
    if request.kind == "gpu":
        emit.part("machine", {"clock": gpu.clock_now()})  # within milliseconds of the load
    emit.part("cold", _warm_up(found, steps_per_epoch))
    steady = _steady(found, units_per_step, flops_per_step, steps_per_epoch)
    emit.part("steady", steady)
    return steady


def _tell_energy(warm_up: int, steady: int, emit: Emitter) -> None:
    """Which windows were warm-up and which steady state is known only after all of them; one more was begun."""
    emit.energy_part(None)
    names = [f"window {number}" for number in range(1, warm_up + steady + 2)]
    emit.energy_sum("warm_up", names[:warm_up])
    emit.energy_sum("steady", names[warm_up:-1])
    emit.energy_sum(None, names[-1:])


def planted(prepare: PrepareSteps, slowdown: float) -> PrepareSteps:
    """The same steps, made slower by this share of their time: the processor waits busily, within the clock."""
    if not slowdown:
        return prepare

    def slower(steps: int) -> Callable[[], object]:
        run = prepare(steps)

        def go() -> object:
            start = time.perf_counter()
            result = run()
            end = start + (time.perf_counter() - start) * (1 + slowdown)
            while time.perf_counter() < end:
                pass
            return result

        return go

    return slower


def _warm_up(found: SteadyState, steps_per_epoch: int) -> dict:
    steps = 1 + sum(steps for steps, _ in found.warm_up)
    return {
        "warm_up": found.warm_up,
        "warm_up_epochs": steps / steps_per_epoch if steps_per_epoch else None,
        "warm_up_end": found.end,
    }


def _steady(found: SteadyState, units_per_step: float, flops_per_step: float | None, steps_per_epoch: int) -> Steady:
    steps, seconds = sum(steps for steps, _ in found.windows), sum(took for _, took in found.windows)
    return Steady(
        windows=found.windows,
        steps=steps,
        seconds=seconds,
        step_time=seconds / steps,
        throughput=units_per_step * steps / seconds,
        flops_per_second=None if flops_per_step is None else flops_per_step * steps / seconds,
        epoch_time=steps_per_epoch * seconds / steps if steps_per_epoch else None,
        trend=found.trend.direction,
        trend_p=found.trend.p,
        drift=found.trend.drift,
    )
