"""Tries workload files: one process for each backend, all at once and with a time limit; then forecasts."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from whichdevice.backends import backend_class
from whichdevice.errors import StudyError
from whichdevice.forecast.answer import answer
from whichdevice.forecast.compile import compile_programs
from whichdevice.forecast.targets import find_target
from whichdevice.host.affinity import thread_environment, usable_cores
from whichdevice.host.memory import available_memory
from whichdevice.measuring.supervisor import Finish, supervise_module
from whichdevice.records.compiled import ProgramRequest
from whichdevice.records.request import Request
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import TrainingWorkload
from whichdevice.workloads.framework import TORCH

SMALL_BATCH = 2  # enough for batch statistics
BACKENDS = ("tensorflow", "jax", "torch")


@dataclass
class Tried:
    """What one workload came to on one backend."""

    status: str = "failed"
    reason: str | None = None
    parts: dict[str, Any] = field(default_factory=dict)


def installed_backends() -> list[str]:
    """Backends whose framework is there."""
    return [name for name in BACKENDS if find_spec(backend_class(name).package) is not None]


def try_on(
    backend: str, modules: Sequence[str], precision: str, options: Mapping[str, Any], seconds: float, log: Path
) -> list[Tried]:
    """Try workloads one after the other in one process; one that hangs takes those after it along."""
    requests = [request_for(module, backend, precision, options) for module in modules]
    found = [Tried() for _ in modules]
    phase = ["starting"]

    def on_message(message: dict[str, Any]) -> None:
        if message["event"] == "progress":
            phase.append(message["phase"])
        elif message["event"] == "part":
            tried = found[int(message["place"])]
            for name, value in message["value"].items():
                if name in ("status", "reason"):
                    setattr(tried, name, value)
                else:
                    tried.parts.setdefault(name, {}).update(value)

    finish = _supervised(requests, seconds, log, on_message)
    for tried in found:
        if tried.status == "failed" and tried.reason is None:
            tried.status, tried.reason = finish.status, _why(finish, phase[-1], seconds)
    return found


def forecasts(
    module: str, devices: Sequence[str], precision: str, options: Mapping[str, Any], seconds: float
) -> list[dict[str, Any]]:
    """The forecast of the workload's training step at its own batch size on each of these devices."""
    targets = [find_target(name) for name in devices]
    requests = [
        ProgramRequest(
            device=target.device,
            devices=target.devices,
            workload=Path(module).stem,
            module=module,
            precision=precision,
            batch_size=workload_class(module).recipe.batch_size,
            options=dict(options),
            timeout=seconds,
        )
        for target in targets
    ]
    return [answer(record) for record in compile_programs(requests)]


def try_everywhere(
    module: str, backends: Sequence[str], precision: str, options: Mapping[str, Any], seconds: float
) -> dict[str, Tried]:
    """What the workload came to, by backend."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(backends)) as pool:
        waiting = {
            name: pool.submit(try_on, name, [module], precision, options, seconds, Path(folder) / f"{name}.log")
            for name in backends
        }
        return {name: each.result()[0] for name, each in waiting.items()}


def request_for(module: str, backend: str, precision: str, options: Mapping[str, Any]) -> Request:
    """A run of a small batch on this host's CPU."""
    chosen = workload_class(module)
    if not issubclass(chosen, TrainingWorkload):
        raise StudyError(f"{module}: no training workload; only those are tried")
    return Request(
        device="cpu",
        kind="cpu",
        replicas=1,
        workload=Path(module).stem,
        module=module,
        backend=backend,
        precision=precision,
        batch_size=SMALL_BATCH,
        fraction=1.0,
        loop="fit" if chosen.framework == TORCH else "epoch",  # torch.compile takes a minute
        sequence_length=None,
        repeat=1,
        seed=1,
        epochs=0,
        steps_per_epoch=None,
        validation=False,
        learn=False,
        seconds=0.0,
        min_steps=1,
        timeout=0.0,
        profile=False,
        dataset=chosen.dataset,
        source=None,
        options=dict(options),
    )


def _supervised(requests: Sequence[Request], seconds: float, log: Path, on_message: Any) -> Finish:
    threads = usable_cores()
    variables = {**thread_environment(threads), **backend_class(requests[0].backend).environment(requests[0], threads)}
    job = {
        "requests": [request.model_dump(mode="json") for request in requests],
        "batch_sizes": [workload_class(request.module).recipe.batch_size for request in requests],
        "threads": threads,
        "memory_limit": available_memory(),
    }
    return supervise_module("whichdevice.checking.process", json.dumps(job), variables, log, seconds, on_message)


def _why(finish: Finish, phase: str, seconds: float) -> str:
    if finish.status == "timed_out":
        return f"no end after {seconds:g} s, while {phase}; killed"
    return f"{finish.reason}, while {phase}"
