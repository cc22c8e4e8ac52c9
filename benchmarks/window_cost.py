"""What a timed window costs beside its steps: starting the call, waiting at its end, steps that do not overlap there.

    python benchmarks/window_cost.py [--backend tensorflow] [--workload mnist_cnn] [--batch 64] [--rounds 60]

Calls of 2 to 64 steps of this project's own loop, in random order in one process. Printed: the median of each number
of steps, and the straight line through them, by least squares of relative deviations: seconds a call and a step.
"""

import argparse
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests")]

STEPS = (2, 4, 8, 16, 32, 64)  # of a call


def main() -> None:
    """Print times and line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tensorflow")
    parser.add_argument("--workload", default="mnist_cnn")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=60)
    asked = parser.parse_args()
    from backends.scenario import REQUEST

    from whichdevice.backends import backend_class
    from whichdevice.machine.cpu import thread_environment, usable_cores
    from whichdevice.records.schema import Request

    request, threads = Request(**{**REQUEST, "backend": asked.backend}), usable_cores()
    wanted = {**thread_environment(threads), **backend_class(asked.backend).environment(request, threads)}
    if any(os.environ.get(name) != value for name, value in wanted.items()):  # they count from the start of a process
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    times = measured(asked.backend, asked.workload, asked.batch, asked.rounds)
    call, step = line_through(times)
    each = ", ".join(f"{steps}: {1e3 * seconds / steps:.2f}" for steps, seconds in times.items())
    print(f"{asked.backend}, batch {asked.batch}: {1e3 * call:.2f} ms a call, {1e3 * step:.2f} ms a step")
    print(f"    ms a step in calls of so many steps: {each}")


def measured(backend: str, workload: str, batch: int, rounds: int) -> dict[int, float]:
    """Median seconds of calls of each number of steps."""
    from benchmarks.harness_overhead import loop_and_order

    loop, order = loop_and_order(backend, workload, batch)
    loop.run(order.take(2 * STEPS[0]))
    random = np.random.default_rng(0)
    took: dict[int, list[float]] = {steps: [] for steps in STEPS}
    for _ in range(rounds):
        for steps in random.permutation(STEPS).tolist():
            batches = order.take(steps)
            began = time.perf_counter()
            loop.run(batches)
            took[steps].append(time.perf_counter() - began)
    return {steps: float(np.median(seconds)) for steps, seconds in took.items()}


def line_through(times: Mapping[int, float]) -> tuple[float, float]:
    """Seconds of a call and of a step, from the seconds of calls by their number of steps."""
    steps, seconds = np.array(list(times), float), np.array(list(times.values()))
    rows = np.stack([1 / seconds, steps / seconds], axis=1)
    call, step = np.linalg.lstsq(rows, np.ones(len(steps)), rcond=None)[0]
    return float(call), float(step)


if __name__ == "__main__":
    main()
