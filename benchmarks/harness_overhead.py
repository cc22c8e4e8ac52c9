"""Step time as this project reports it against the same compiled step in a bare loop, in alternating blocks.

python benchmarks/harness_overhead.py [--workload mnist_cnn] [--batch 256] [--processes 1] [--pairs 12]
    [--seconds 1.5] [--window 0.5] [--backends tensorflow jax torch]

Processes supervised as runs are: each tells every window, and the supervisor reads energy counters and clocks
meanwhile. A pair is a block timed by the project's own search for a steady state (all its windows), then as many steps
in a plain `for` with one reading of the clock at each end; every other pair begins with the plain one. Printed: the
geometric mean with its 95 % t-interval, and the Hodges-Lehmann estimate with the interval of Wilcoxon's signed ranks,
which a few blocks that a neighbour stretched do not widen. Both are of one process: what sets its two compiled programs
apart (where each lies in memory, say) stays for all its pairs. With several processes, of all backends in turn, the
last lines have the mean over them, a process counting once. Windows last as long as in a study with 10 seconds of
steady state, the published one's; the quick study's second has windows of a tenth (`--window 0.1`).
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests")]

from benchmarks.bare_loops import BARE_LOOPS  # noqa: E402

if TYPE_CHECKING:
    from whichdevice.base.events import Emitter

MOST_SECONDS = 3600.0


def loop_and_order(backend_name: str, workload_name: str, batch: int) -> tuple[Any, Any]:
    """This project's own loop on made-up data, and the order of its batches; nothing has run yet."""
    from backends.scenario import REQUEST, arrays_for

    from whichdevice.measure.backends import backend_class
    from whichdevice.measure.record import Request
    from whichdevice.models.loading import Model
    from whichdevice.models.workloads.base import Options

    asked = {"workload": workload_name, "module": workload_name, "batch_size": batch, "backend": backend_name}
    request = Request(**{**REQUEST, **asked})
    backend = backend_class(backend_name)(request, threads=int(os.environ["OMP_NUM_THREADS"]))
    backend.start()
    backend.initialise()
    workload: Any = Model.read(workload_name).workload(Options(batch, "float32", 1.0, None))
    with backend.scope():
        model = workload.model()
    train, validation = workload.splits(arrays_for(workload_name))
    return backend.training_loop(workload, model, train, validation), workload.order(train.examples, 1)


def one_process(
    backend_name: str, workload_name: str, batch: int, pairs: int, seconds: float, window: float, emit: "Emitter"
) -> list[float]:
    """Ratios of harness to bare step time, one a pair; `emit` tells a supervisor of every window of the harness."""
    from whichdevice.measure.timing import Budget, find_steady_state

    loop, order = loop_and_order(backend_name, workload_name, batch)
    loop.run(order.take(4))
    bare = BARE_LOOPS[backend_name](loop)
    bare(order.take(4))

    names = (f"window {number}" for number in count(1))

    def tell(step_time: float, seconds_left: float) -> None:
        emit.progress("timing", step_time=step_time, seconds_left=seconds_left)
        emit.energy_part(next(names))

    def harness() -> float:
        found = find_steady_state(
            lambda steps: partial(loop.run, order.take(steps)), Budget(seconds, 4), lambda windows: None, tell, window
        )
        windows = [*found.warm_up, *found.windows]
        return sum(took for _, took in windows) / sum(steps for steps, _ in windows)

    def plain(steps: int) -> float:
        batches = order.take(steps)
        began = time.perf_counter()
        bare(batches)
        return (time.perf_counter() - began) / steps

    steps = max(4, round(1.25 * seconds / harness()))
    plain(steps)  # a pair that does not count: the first long calls of a process also pay for growing memory
    harness()
    ratios = []
    for pair in range(pairs):
        if pair % 2:
            second = plain(steps)
            ratios.append(harness() / second)
        else:
            first = harness()
            ratios.append(first / plain(steps))
    return ratios


def supervised(name: str) -> list[float]:
    """The ratios of one process of this benchmark, watched and metered as a run is."""
    from backends.scenario import REQUEST

    from whichdevice.base.cpu import thread_environment, usable_cores
    from whichdevice.base.supervisor import supervise
    from whichdevice.measure.backends import backend_class
    from whichdevice.measure.machine.energy import EnergyMeter
    from whichdevice.measure.machine.noise import ClockWatch
    from whichdevice.measure.record import Request
    from whichdevice.study.cells import Cell, Run
    from whichdevice.study.run_progress import Progress

    threads, results = usable_cores(), {}
    request = Request(**{**REQUEST, "backend": name})
    variables = {**thread_environment(threads), **backend_class(name).environment(request, threads)}
    meter, clocks = EnergyMeter(request.kind, request.replicas), ClockWatch(request.kind)
    with tempfile.TemporaryDirectory() as scratch, (Path(scratch) / "progress").open("w") as lines:
        progress = Progress(Run(Cell("cpu", "mnist_cnn", name, "float32", request.batch_size), 1), 1, 1, lines)

        def on_message(message: dict[str, Any]) -> None:
            if message["event"] == "energy":
                meter.take(message)
            elif message["event"] == "progress":
                progress.phase(message["phase"], message["value"])
            else:
                results.update(message["value"])

        clocks.start()
        meter.start()
        log = Path(scratch) / "log"
        command = [sys.executable, __file__, *sys.argv[1:], "--process", name]
        finish = supervise(command, variables, log, MOST_SECONDS, on_message, meter.sample)
        clocks.stop()
        if finish.status != "ok":
            sys.exit(f"{name}: {finish.reason}\n{log.read_text(encoding='utf-8', errors='replace')[-2000:]}")
    return results["ratios"]


def by_t(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean and its 95 % t-interval, as the tables have them."""
    from whichdevice.study.tables.decision_rule import geometric

    values = pd.Series(ratios)
    found = geometric(values, pd.Series(0, values.index)).iloc[0]
    return found["mean"], found["low"], found["high"]


def signed_ranks(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Hodges-Lehmann estimate and 95 % limits: order statistics of the means of all pairs (Hollander & Wolfe, 3.3)."""
    logs = np.log(ratios)
    count = len(logs)
    first, second = np.triu_indices(count)
    means = np.sort((logs[first] + logs[second]) / 2)
    spread = (count * (count + 1) * (2 * count + 1) / 24) ** 0.5
    rank = max(0, int(count * (count + 1) / 4 - 1.96 * spread))
    middle, low, high = np.exp([np.median(means), means[rank], means[-1 - rank]])
    return float(middle), float(low), float(high)


def told(mean: float, low: float, high: float) -> str:
    """A ratio with its interval."""
    return f"{mean:.4f} [{low:.4f}, {high:.4f}]"


def main() -> None:
    """Print every ratio, both estimates and their 95 % intervals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="mnist_cnn")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--processes", type=int, default=1, help="of each backend")
    parser.add_argument("--pairs", type=int, default=12, help="of each process")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--window", type=float, default=0.5, help="seconds of a timed call")
    parser.add_argument("--backends", nargs="+", default=["tensorflow", "jax", "torch"])
    parser.add_argument("--process", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.process:
        from whichdevice.base.events import Emitter

        with os.fdopen(int(os.environ["WHICHDEVICE_EVENTS"]), "w", encoding="utf-8") as events:
            emit = Emitter(events)
            found = one_process(
                asked.process, asked.workload, asked.batch, asked.pairs, asked.seconds, asked.window, emit
            )
            emit.part("results", {"ratios": found})
            emit.end("ok")
        return
    of_processes: dict[str, list[float]] = {name: [] for name in asked.backends}
    for _ in range(asked.processes):
        for name in asked.backends:
            ratios = supervised(name)
            of_processes[name].append(by_t(ratios)[0])
            print(
                f"{name}: harness / bare loop {told(*by_t(ratios))}, by signed ranks {told(*signed_ranks(ratios))}, "
                f"{asked.pairs} pairs\n  {[round(ratio, 3) for ratio in ratios]}",
                flush=True,
            )
    if asked.processes > 1:
        for name, means in of_processes.items():
            print(f"{name}: harness / bare loop {told(*by_t(means))}, {len(means)} processes", flush=True)


if __name__ == "__main__":
    main()
