"""Try a model on this machine: `whichdevice ask FILE --here`. One process makes a few steps, each with a time limit."""

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from whichdevice.base.code_hash import parsed
from whichdevice.base.cpu import thread_environment, usable_cores
from whichdevice.base.errors import StudyError
from whichdevice.base.memory import available_memory
from whichdevice.base.supervisor import Finish, supervise_module
from whichdevice.base.terminal import LiveLine
from whichdevice.measure.backends import backend_class
from whichdevice.measure.record import Request
from whichdevice.models.framework import BACKENDS, FRAMEWORKS, KERAS
from whichdevice.models.loading import Model

SMALL_BATCH = 2  # enough for batch statistics
STAGE_SECONDS = 120.0  # time limit of each step, such as building the model
LOGS = Path("results/trials")  # what the trying processes print
Step = Callable[[str], None]


@dataclass
class Tried:
    """The outcome of one workload on one backend."""

    status: str = "failed"
    reason: str | None = None
    parts: dict[str, Any] = field(default_factory=dict)


def installed_backends() -> list[str]:
    """Return the backends whose framework is installed."""
    return [name for name in BACKENDS[KERAS] if find_spec(backend_class(name).package) is not None]


def first_backend(model: Model) -> str:
    """The backend to try first: the one of a PyTorch or JAX model; of a Keras model, one that its own files import.

    Raises StudyError where there is none.
    """
    framework = model.framework
    installed = [name for name in installed_backends() if name in BACKENDS[framework]]
    if not installed and framework != KERAS:
        raise StudyError(
            f"{model} is {FRAMEWORKS[framework]}, whose framework is not installed here: pip install {framework}"
        )
    if not installed:
        raise StudyError("no TensorFlow, JAX or PyTorch is installed: in the project's folder, pip install '.[jax]'")
    imported: set[str] = set()
    for path in model.address.files():
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
    models: Sequence[Model],
    precision: str,
    options: Mapping[str, Any],
    seconds: float,
    log: Path,
    on_step: Step = lambda _: None,
) -> list[Tried]:
    """Try workloads one after the other in one process; one that hangs takes those after it along.

    `seconds` is the time limit of each step; `on_step` is called with what is going on.
    """
    requests = [request_for(model, backend, precision, options) for model in models]
    outcomes = [Tried() for _ in models]
    phase = [f"starting {backend}"]

    def on_message(message: dict[str, Any]) -> None:
        if message["event"] == "progress":
            phase.append(message["phase"])
            on_step(message["phase"])
        elif message["event"] == "part":
            tried = outcomes[int(message["place"])]
            for name, value in message["value"].items():
                if name in ("status", "reason"):
                    setattr(tried, name, value)
                else:
                    tried.parts.setdefault(name, {}).update(value)

    on_step(phase[0])
    finish = _supervised(requests, seconds, log, on_message)
    for tried in outcomes:
        if tried.status == "failed" and tried.reason is None:
            tried.status, tried.reason = finish.status, _why(finish, phase[-1], seconds, log)
    return outcomes


def show_trial(model: Model, backend: str, options: Mapping[str, Any]) -> int:
    """Print what a few steps on this backend show; return 1 where they fail."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{model.name}-{backend}.log"
    log.write_bytes(b"")
    phases = [f"starting {backend}"]
    with LiveLine(lambda: f"{model}: {phases[-1]}") as line:

        def on_step(phase: str) -> None:
            phases.append(phase)
            if not line.live:
                line.line(f"{model}: {phase}")

        [tried] = try_on(backend, [model], "float32", options, STAGE_SECONDS, log, on_step)
    hints = model.declared.hints if model.declared is not None else ()
    print("\n".join(findings(model.text, backend, tried, hints)))
    return int(tried.status != "ok")


def request_for(model: Model, backend: str, precision: str, options: Mapping[str, Any]) -> Request:
    """A run of a small batch on this host's CPU."""
    if not model.has_model:
        raise StudyError(f"{model}: no training workload; only those are tried")
    return Request(
        device="cpu",
        kind="cpu",
        replicas=1,
        workload=model.name,
        module=model.text,
        backend=backend,
        precision=precision,
        batch_size=SMALL_BATCH,
        fraction=1.0,
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
        dataset=model.dataset,
        source=None,
        options=dict(options),
    )


def _supervised(requests: Sequence[Request], seconds: float, log: Path, on_message: Any) -> Finish:
    threads = usable_cores()
    variables = {**thread_environment(threads), **backend_class(requests[0].backend).environment(requests[0], threads)}
    job = {
        "requests": [request.model_dump(mode="json") for request in requests],
        "threads": threads,
        "memory_limit": available_memory(),
    }
    module = "whichdevice.measure.trying.process"
    return supervise_module(module, json.dumps(job), variables, log, seconds, on_message, by_phase=True)


def _why(finish: Finish, phase: str, seconds: float, log: Path) -> str:
    if finish.status == "timed_out":
        return f"still {phase} after {seconds:g} s; ended"
    reason = (finish.reason or "the process ended").replace("see its log", f"its log: {log}")
    return f"{reason}, while {phase}"


FALLS = 0.001  # of the first loss, at least


def findings(module: str, backend: str, tried: Tried, hints: tuple[str, ...]) -> list[str]:
    """Return lines: what the model is, how it did on the backend, and what is doubtful about it."""
    lines = [module, *(_facts(tried.parts) if "workload" in tried.parts else [])]
    lines.append(_line(backend, _of_backend(tried)))
    doubts = tried.parts.get("model", {}).get("doubts", [])
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
    inputs, outputs = (_joined(model.get(name) or []) for name in ("inputs", "outputs"))
    methods = [f"{name}()" for name in model.get("step") or [] if name != "compile"]
    shown = [
        _line("model", f"{model.get('kind', 'model')} with {facts['parameters']:,} parameters: {inputs} to {outputs}"),
    ]
    if methods:
        shown.append(_line("step", f"its own {' and '.join(methods)}, as `fit` calls it"))
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
