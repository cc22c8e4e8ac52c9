"""Tries workload files: one process for each backend, and the TPU compiler, all at once and with a time limit."""

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
from whichdevice.forecast.compile import NEEDED, supervised
from whichdevice.host.affinity import thread_environment, usable_cores
from whichdevice.host.memory import available_memory
from whichdevice.measuring.supervisor import Finish, supervise_module
from whichdevice.records.compiled import CompileRequest
from whichdevice.records.request import Request
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import TrainingWorkload

SMALL_BATCH = 2  # enough for batch statistics
BACKENDS = ("tensorflow", "jax", "torch")


@dataclass
class Tried:
    """What one workload came to on one backend, or on the TPU compiler."""

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


def try_compiler(
    module: str, topology: str, precision: str, options: Mapping[str, Any], seconds: float, log: Path
) -> Tried:
    """Compile the step of a workload without a dataset at its own batch size for a TPU."""
    chosen = workload_class(module)
    if any(find_spec(name) is None for name in NEEDED):
        return Tried("unavailable", "no TPU compiler here (jax[tpu], Linux on x86-64)")
    if chosen.dataset is not None:
        return Tried("unavailable", "compiled by a study, which has its dataset")
    request = CompileRequest(
        topology=topology,
        workload="tried",
        module=module,
        precision=precision,
        batch_size=chosen.recipe.batch_size,
        options=dict(options),
        timeout=seconds,
    )
    tried = Tried()

    def on_message(message: dict[str, Any]) -> None:
        if message["event"] == "part":
            tried.parts.setdefault(message["place"], {}).update(message["value"])

    finish = supervised(request, None, log, on_message)
    tried.status, tried.reason = finish.status, finish.reason
    if finish.status == "timed_out":
        tried.reason = f"still compiling after {seconds:g} s; a study waits for compile.timeout"
    return tried


def try_everywhere(
    module: str,
    backends: Sequence[str],
    precision: str,
    topology: str | None,
    options: Mapping[str, Any],
    seconds: float,
) -> dict[str, Tried]:
    """By backend, and under the topology's name what the compiler says."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(backends) + 1) as pool:
        logs = {name: Path(folder) / f"{name}.log" for name in [*backends, *([topology] if topology else [])]}
        waiting: dict[str, Any] = {
            name: pool.submit(try_on, name, [module], precision, options, seconds, logs[name]) for name in backends
        }
        if topology is not None:
            of_tpu = "mixed_bfloat16" if precision == "float32" else precision
            compiled = pool.submit(try_compiler, module, topology, of_tpu, options, seconds, logs[topology])
        tried = {name: each.result()[0] for name, each in waiting.items()}
        return tried | ({topology: compiled.result()} if topology is not None else {})


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
        loop="epoch",
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
