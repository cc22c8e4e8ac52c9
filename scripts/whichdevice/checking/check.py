"""Try workload files: one process for each backend, all at once and with a time limit; then forecasts."""

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from whichdevice.backends import backend_class
from whichdevice.code_hash import parsed
from whichdevice.errors import StudyError
from whichdevice.forecast.answer import Forecast, forecast_of
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.xla.compile import compile_programs
from whichdevice.machine.cpu import available_memory, thread_environment, usable_cores
from whichdevice.measuring.supervisor import Finish, supervise_module
from whichdevice.models.framework import BACKENDS, KERAS, NAMES, TORCH
from whichdevice.models.loading import read_address, workload_class
from whichdevice.records.products import ProgramRequest
from whichdevice.records.schema import Request
from whichdevice.workloads.base import TrainingWorkload

SMALL_BATCH = 2  # enough for batch statistics
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
    return [name for name in BACKENDS[KERAS] if find_spec(backend_class(name).package) is not None]


def first_backend(module: str) -> str:
    """The backend to try first: the one of a PyTorch or JAX model; of a Keras model, one that its own files import.

    Raises StudyError where there is none.
    """
    framework = workload_class(module).framework
    installed = [name for name in installed_backends() if name in BACKENDS[framework]]
    if not installed and framework != KERAS:
        raise StudyError(
            f"{module} is {NAMES[framework]}, whose framework is not installed here: pip install {framework}"
        )
    if not installed:
        raise StudyError("no TensorFlow, JAX or PyTorch is installed: in the project's folder, pip install '.[jax]'")
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
) -> list[Forecast]:
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
    return [forecast_of(record) for record in compile_programs(requests)]


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
        loop="fit" if chosen.framework == TORCH else chosen.loops[0],  # torch.compile takes a minute
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


FALLS = 0.001  # of the first loss, at least


def findings(
    module: str, tried: Mapping[str, Tried], forecasts: Sequence[Forecast], hints: tuple[str, ...]
) -> list[str]:
    """Lines: what the model is, how it did on each backend, and what other devices would make of it."""
    known = next((each.parts for each in tried.values() if "workload" in each.parts), None)
    lines = [module]
    if known is not None:
        lines += _facts(known)
    lines += [_line(name, _of_backend(each)) for name, each in tried.items()]
    lines += [_line("forecast", f"{forecast.device}: {_of_device(forecast)}") for forecast in forecasts]
    doubts = known.get("model", {}).get("doubts", []) if known is not None else []
    return lines + [_line("hint", hint) for hint in (*doubts, *hints)]


def _line(name: str, text: str) -> str:
    return f"  {name:11} {text}"


def _facts(parts: Mapping[str, Any]) -> list[str]:
    facts, model = parts["workload"], parts.get("model", {})
    batch_size = facts["input_shape"][0]
    forward, training = (model.get(name) for name in ("forward_flops", "training_flops"))
    work = facts["flops_counted"]
    if forward is not None and training is not None:
        work = f"{forward / 1e9:.4g} GFLOP an example forward, {training / 1e9:.4g} to train on it ({work})"
    takes, gives = (_joined(model.get(name) or []) for name in ("inputs", "outputs"))
    own = [f"{name}()" for name in model.get("step") or [] if name != "compile"]
    shown = [
        _line("model", f"{model.get('kind', 'model')} with {facts['parameters']:,} parameters: {takes} to {gives}"),
    ]
    if own:
        shown.append(_line("step", f"its own {' and '.join(own)}, as `fit` calls it"))
    if model.get("precision"):
        shown.append(_line("precision", model["precision"]))
    return [
        *shown,
        _line(
            "data", f"{facts['training_examples']:,} training and {facts['validation_examples']:,} validation examples"
        ),
        _line("work", work),
        _line(
            "memory",
            f"about {facts['estimated_memory'] / 1e9:.1f} GB on a CPU at batch {batch_size} (estimate); "
            f"{available_memory() / 1e9:.1f} GB are free here",
        ),
    ]


def _joined(parts: Sequence[str]) -> str:
    """`int32 (128,)`, or several: `token_ids int32 (128,) and padding_mask int32 (128,)`."""
    return " and ".join(parts) if parts else "nothing"


def _of_backend(tried: Tried) -> str:
    losses = tried.parts.get("losses", {}).get("of_steps", [])
    if tried.status != "ok":
        return f"{tried.status.replace('_', ' ')}: {tried.reason}"
    what = f"loss {losses[0]:.4g} to {losses[-1]:.4g} in {len(losses)} steps on one batch of {SMALL_BATCH}"
    falls = losses[0] - losses[-1] > FALLS * abs(losses[0])
    return f"ok: {what}" if falls else f"ok, but the loss does not fall: {what}"


def _of_device(forecast: Forecast) -> str:
    if forecast.step_time is None:
        return f"{forecast.status.replace('_', ' ')}: {forecast.reason}"
    ends = (forecast.step_time, forecast.step_time_low, forecast.step_time_high)
    step, low, high = ((seconds or 0.0) * 1e3 for seconds in ends)
    needed, available = ((nbytes or 0.0) / 1e9 for nbytes in (forecast.memory_needed, forecast.memory_available))
    fits = "fits" if forecast.fits else "does not fit"
    return (
        f"{fits}: {needed:.3g} of {available:.3g} GB; a step of {forecast.batch_size:,} in {step:.3g} ms "
        f"({low:.3g} to {high:.3g}; nobody ran it)"
    )
