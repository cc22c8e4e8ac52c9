"""One backend and one number format against the C loops, in one process; JSON lines. Started by benchmarks/peak.py.

python benchmarks/peak/framework.py BACKEND PRECISION LOOP SETTINGS, the last two the compiled C program and JSON.
"""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from whichdevice.base.cpu import thread_environment, usable_cores  # noqa: E402
from whichdevice.base.events import Emitter  # noqa: E402
from whichdevice.measure.backends import backend_class  # noqa: E402
from whichdevice.measure.process import run_operation  # noqa: E402
from whichdevice.measure.record import Request  # noqa: E402
from whichdevice.measure.timing import window_seconds, window_steps  # noqa: E402
from whichdevice.models.loading import Model  # noqa: E402
from whichdevice.models.workloads.base import Options  # noqa: E402

RECORD = 4  # times a measurement: a record of four or five windows said little more than a host's last half second
Rate = Callable[[], float | None]  # operations or bytes per second, measured


def request_for(backend: str, precision: str, module: str, size: int, seconds: float) -> Request:
    """What a study's `measure` would ask."""
    return Request(
        device="cpu", kind="cpu", replicas=1, workload=module, module=module, backend=backend, precision=precision,
        batch_size=size, fraction=1.0, sequence_length=None, repeat=1, seed=1, epochs=0,
        steps_per_epoch=None, validation=False, learn=False, seconds=seconds, min_steps=4, timeout=600.0,
        dataset=None, source=None,
    )  # fmt: skip


def c_rate(loop: str, kind: str, seconds: float, mebibytes: int = 0) -> float | None:
    """Operations or bytes per second of a C loop; None where the processor has no such instructions."""
    done = subprocess.run([loop, kind, str(seconds), str(mebibytes or 1)], capture_output=True, text=True)
    if done.returncode == 3:
        return None
    if done.returncode:
        raise SystemExit(f"{kind}: the C loop ended with status {done.returncode}: {done.stderr.strip()}")
    return float(done.stdout)


def timed_rate(run: Callable[[int], object], per_step: float, seconds: float) -> float:
    """Rate of as many steps as fill so many seconds; `run` waits for the last."""
    run(1)
    began = time.perf_counter()
    run(2)
    steps = max(2, round(seconds / ((time.perf_counter() - began) / 2)))
    began = time.perf_counter()
    run(steps)
    return per_step * steps / (time.perf_counter() - began)


class WithOther(Emitter):
    """Takes the parts of a record; after each timed window `other` fills one as long, outside the clock."""

    def __init__(self, other: Callable[[int], object], window: float) -> None:
        self._parts = io.StringIO()
        super().__init__(self._parts)
        self._other, self._window, self.windows = other, window, list[tuple[int, float]]()

    def progress(self, phase: str, **told: Any) -> None:
        if phase == "timing":
            steps = window_steps(told["step_time"], self._window)
            began = time.perf_counter()
            self._other(steps)
            self.windows.append((steps, time.perf_counter() - began))

    def steady(self) -> dict[str, Any]:
        """The record's steady state."""
        parts = [json.loads(line) for line in self._parts.getvalue().splitlines()]
        return next(part["value"] for part in parts if part.get("place") == "steady")


def reported_and_by_hand(
    backend: Any, request: Request, chain: Callable[[int], object], per_step: float
) -> tuple[float, float]:
    """Rate by the code that makes a record (operands, warm-up, windows and sums), and by hand between its windows."""
    chain(1)
    emit = WithOther(chain, window_seconds(request.seconds))
    workload = Model.read(request.module).workload(Options(request.batch_size, request.precision))
    run_operation(backend, workload, request, 1e15, emit)
    steady = emit.steady()
    beside = emit.windows[-len(steady["windows"]) :]
    by_hand = sum(steps for steps, _ in beside) / sum(seconds for _, seconds in beside)
    return per_step * steady["steps"] / steady["seconds"], per_step * by_hand


def by_hand(backend: str, size: int, precision: str) -> Callable[[int], object]:
    """A chain of products written with the framework alone: nothing of the package."""
    random = np.random.default_rng(7)
    host = [random.standard_normal((size, size), dtype=np.float32) / (size**0.5) ** turn for turn in range(2)]
    if backend == "torch":
        import torch

        a, b = (torch.tensor(array).to(getattr(torch, precision)) for array in host)

        def chain(steps: int) -> float:
            state = a
            with torch.no_grad():
                for _ in range(steps):
                    state = state @ b
            return float(state[0, 0])

        return chain
    if backend == "jax":
        import jax

        a, b = (jax.numpy.asarray(array, precision) for array in host)
        product = jax.jit(lambda state, factor: jax.numpy.matmul(state, factor, precision="highest"))

        def chain_jax(steps: int) -> None:
            state = a
            for _ in range(steps):
                state = product(state, b)
            state.block_until_ready()

        return chain_jax
    import tensorflow as tf

    first, second = (tf.cast(tf.constant(array), precision) for array in host)

    @tf.function(autograph=False)
    def many(steps: Any) -> Any:
        start = (tf.constant(0), first)
        return tf.while_loop(lambda i, s: i < steps, lambda i, s: (i + 1, tf.matmul(s, second)), start)[1][0, 0]

    return lambda steps: float(many(tf.constant(steps)))


def in_turns(rounds: int, measured: Rate, limit: Rate) -> Iterator[tuple[float | None, float | None]]:
    """Both, so many times; every other time the limit comes first."""
    for turn in range(rounds):
        if turn % 2:
            last = limit()
            yield measured(), last
        else:
            yield measured(), limit()


def main() -> None:
    """Find the best size, then alternate: C loop and framework; reported and by hand; C stream and memory_stream."""
    name, precision, loop, settings = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
    seconds, rounds = settings["seconds"], settings["rounds"]

    def tell(what: str, **values: Any) -> None:
        print(json.dumps({"what": what, **values}), flush=True)

    backend = backend_class(name)(request_for(name, precision, "matmul", 512, seconds), usable_cores())
    backend.start()
    backend.initialise()
    workloads = {size: Model.read("matmul").workload(Options(size, precision)) for size in settings["sizes"]}
    loops = {size: backend.operation_loop(workload, np.random.default_rng(1)) for size, workload in workloads.items()}
    rates = {size: timed_rate(loop.run, workloads[size].flops_per_step, seconds) for size, loop in loops.items()}
    best = max(rates, key=lambda size: rates[size])
    flops = workloads[best].flops_per_step
    tell("best", size=best, rates=rates)
    widened = backend.types().emulated  # then the products are float32's, whatever the operands
    for kind in ["float32"] if precision == "float32" or widened else ["bfloat16", "amx_bfloat16"]:
        peak = partial(c_rate, loop, kind, seconds)
        if peak() is None:
            tell("none", kind=kind)
            continue
        for measured, limit in in_turns(rounds, partial(timed_rate, loops[best].run, flops, seconds), peak):
            tell("peak", kind=kind, size=best, measured=measured, limit=limit)
    chain, request = by_hand(name, best, precision), request_for(name, precision, "matmul", best, RECORD * seconds)
    for _ in range(rounds):
        measured, limit = reported_and_by_hand(backend, request, chain, flops)
        tell("hand", size=best, measured=measured, limit=limit)
    if precision == "float32":
        stream = Model.read("memory_stream").workload(Options(settings["mebibytes"], precision))
        passes = backend.operation_loop(stream, np.random.default_rng(1))
        moved = partial(c_rate, loop, "stream", seconds, 2 * settings["mebibytes"])
        for measured, limit in in_turns(rounds, partial(timed_rate, passes.run, stream.bytes_per_step, seconds), moved):
            tell("stream", size=settings["mebibytes"], measured=measured, limit=limit)


def with_environment() -> None:
    """Start anew with the variables that a measured run of this backend has."""
    threads = usable_cores()
    request = request_for(sys.argv[1], sys.argv[2], "matmul", 512, 1.0)
    wanted = {**thread_environment(threads), **backend_class(sys.argv[1]).environment(request, threads)}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})


if __name__ == "__main__":
    with_environment()
    main()
