"""Tries workloads: a process for each backend, one after the other, with a time limit for each step; then forecasts."""

import ast
import json
from collections.abc import Callable, Mapping, Sequence
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
from whichdevice.python_source import parsed
from whichdevice.records.compiled import ProgramRequest
from whichdevice.records.request import Request
from whichdevice.workloads import read_address, workload_class
from whichdevice.workloads.base import TrainingWorkload

SMALL_BATCH = 2  # enough for batch statistics
BACKENDS = ("tensorflow", "jax", "torch")
LOGS = Path("results/check")  # what the trying processes print
Step = Callable[[str], None]


@dataclass
class Tried:
    """What one workload came to on one backend."""

    status: str = "failed"
    reason: str | None = None
    parts: dict[str, Any] = field(default_factory=dict)


def installed_backends() -> list[str]:
    """Backends whose framework is there."""
    return [name for name in BACKENDS if find_spec(backend_class(name).package) is not None]


def first_backend(module: str) -> str:
    """The backend to try first: that of a framework which the workload's own files import, else an installed one.

    Raises StudyError where there is none.
    """
    installed = installed_backends()
    if not installed:
        raise StudyError("no TensorFlow, JAX or PyTorch is installed here: pip install 'whichdevice[cpu]'")
    imported: set[str] = set()
    for path in read_address(module).files():
        if path.suffix == ".py":
            imported |= _imports(path)
    return next((name for name in installed if name in imported), installed[0])


def _imports(path: Path) -> set[str]:
    try:
        nodes = list(ast.walk(parsed(path.read_bytes())))
    except (SyntaxError, ValueError, RecursionError):
        return set()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.partition(".")[0] for name in names}


def try_on(
    backend: str,
    modules: Sequence[str],
    precision: str,
    options: Mapping[str, Any],
    seconds: float,
    log: Path,
    on_step: Step = lambda _: None,
) -> list[Tried]:
    """Try workloads one after the other in one process; one that hangs takes those after it along.

    `seconds` is the time limit of each step; `on_step` is called with what is going on.
    """
    requests = [request_for(module, backend, precision, options) for module in modules]
    found = [Tried() for _ in modules]
    phase = [f"starting {backend}"]

    def on_message(message: dict[str, Any]) -> None:
        if message["event"] == "progress":
            phase.append(message["phase"])
            on_step(message["phase"])
        elif message["event"] == "part":
            tried = found[int(message["place"])]
            for name, value in message["value"].items():
                if name in ("status", "reason"):
                    setattr(tried, name, value)
                else:
                    tried.parts.setdefault(name, {}).update(value)

    on_step(phase[0])
    finish = _supervised(requests, seconds, log, on_message)
    for tried in found:
        if tried.status == "failed" and tried.reason is None:
            tried.status, tried.reason = finish.status, _why(finish, phase[-1], seconds, log)
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
            workload=read_address(module).name,
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
    module: str,
    backends: Sequence[str],
    precision: str,
    options: Mapping[str, Any],
    seconds: float,
    on_step: Callable[[str, str], None] = lambda *_: None,
) -> dict[str, Tried]:
    """What the workload came to, by backend; an interrupt ends the one that runs at once."""
    LOGS.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in backends:
        log = LOGS / f"{read_address(module).name}-{name}.log"
        log.write_bytes(b"")

        def step(phase: str, name: str = name) -> None:
            on_step(name, phase)

        found[name] = try_on(name, [module], precision, options, seconds, log, step)[0]
    return found


def request_for(module: str, backend: str, precision: str, options: Mapping[str, Any]) -> Request:
    """A run of a small batch on this host's CPU."""
    chosen = workload_class(module)
    if not issubclass(chosen, TrainingWorkload):
        raise StudyError(f"{module}: no training workload; only those are tried")
    return Request(
        device="cpu",
        kind="cpu",
        replicas=1,
        workload=read_address(module).name,
        module=module,
        backend=backend,
        precision=precision,
        batch_size=SMALL_BATCH,
        fraction=1.0,
        loop=chosen.loops[0],
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
    module = "whichdevice.checking.process"
    return supervise_module(module, json.dumps(job), variables, log, seconds, on_message, by_phase=True)


def _why(finish: Finish, phase: str, seconds: float, log: Path) -> str:
    if finish.status == "timed_out":
        return f"still {phase} after {seconds:g} s; ended. --seconds N gives each step more time"
    reason = (finish.reason or "the process ended").replace("see its log", f"its log: {log}")
    return f"{reason}, while {phase}"
