"""Time what is served: the model exported to ONNX, on ONNX Runtime, in a process of its own on this machine's CPU.

    exported_steps(model, batches=(1, 64), options={}, length=None)     # seconds of a call by its batch

The process is `python -m whichdevice.measure.trying.exported JOB.json`. It exports a Keras model by tf2onnx, a
PyTorch one by torch.onnx. Weights are the initial ones: how long a prediction takes does not depend on them.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from whichdevice.base.cpu import thread_environment, usable_cores
from whichdevice.base.errors import StudyError
from whichdevice.base.events import Emitter, built_within, run_to_end
from whichdevice.base.locks import measurement_lock
from whichdevice.base.memory import available_memory
from whichdevice.base.processes import supervised_job
from whichdevice.base.supervisor import supervise_module
from whichdevice.measure.backends import backend_class
from whichdevice.measure.inference_run import input_batches
from whichdevice.measure.record import Request
from whichdevice.models.datasets.base import get_dataset
from whichdevice.models.framework import KERAS, TORCH
from whichdevice.models.loading import Model
from whichdevice.models.shapes import Tree, leaves, mapped
from whichdevice.models.torch_model import TorchFile
from whichdevice.models.workloads.base import TrainingWorkload
from whichdevice.study.prepare import STANDIN_SEED

ENGINE = "onnxruntime"
NEEDED = {KERAS: ("tensorflow", "tf2onnx"), TORCH: ("torch", "onnxscript")}  # beside ENGINE, to export
WINDOWS, WINDOW_SECONDS = 7, 0.3  # that are timed at each batch; their median counts
MAX_SECONDS = 10.0  # of all windows, from the second on
TIME_LIMIT = 300.0  # seconds of each phase
LOGS = Path("results/trials")  # what the process prints


def can_export(model: Model) -> bool:
    """Return whether ONNX Runtime and what writes its files are installed, and the model is of a framework that can."""
    return all(find_spec(name) for name in (ENGINE, *NEEDED.get(model.framework, ("none",))))


def exported_steps(
    model: Model, batches: Sequence[int], options: Mapping[str, Any], length: int | None, on_step: Callable[[str], None]
) -> dict[int, float]:
    """Return seconds of a call by its batch; raises StudyError where the model cannot be exported or run there."""
    threads = usable_cores()
    if not model.has_model:
        raise StudyError(f"{model}: no training workload; only those are exported")
    request = Request(
        device="cpu", kind="cpu", replicas=1, workload=model.name, module=model.text,
        backend=NEEDED[model.framework][0], precision="float32", batch_size=2, fraction=1.0, loop="fit", mode="predict",
        sequence_length=length, repeat=1, seed=1, epochs=0, steps_per_epoch=None, validation=False, learn=False,
        seconds=0.0, min_steps=1, timeout=0.0, dataset=model.dataset, source=None, options=dict(options),
    )  # fmt: skip
    job = {"request": request.model_dump(mode="json"), "batches": list(batches), "threads": threads}
    variables = {**thread_environment(threads), **backend_class(request.backend).environment(request, threads)}
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{model.name}-{ENGINE}.log"
    log.write_bytes(b"")
    steps: dict[int, float] = {}

    def on_message(message: dict[str, Any]) -> None:
        if message["event"] == "progress":
            on_step(message["phase"])
        elif message["event"] == "part":
            steps.update({int(batch): seconds for batch, seconds in message["value"].items()})

    with measurement_lock(f"{model} on {ENGINE}", on_step):
        finish = supervise_module(__name__, json.dumps(job), variables, log, TIME_LIMIT, on_message, by_phase=True)
    if finish.status != "ok":
        raise StudyError(f"{(finish.reason or 'the process ended').replace('see its log', f'its log: {log}')}")
    return steps


def main() -> int:
    """Export the model of the job, and time it at every batch."""
    job, stream = supervised_job()
    emit = Emitter(stream)
    request = Request.model_validate(job["request"])
    model = Model.read(request.module)
    backend = backend_class(request.backend, model.framework)(request, job["threads"])
    backend.start()
    backend.initialise()
    run_to_end(partial(_time, model, request, job["batches"], job["threads"], emit), backend, model, emit)
    return 0


def _time(model: Model, request: Request, batches: Sequence[int], threads: int, emit: Emitter) -> None:
    requests = {size: request.model_copy(update={"batch_size": size}) for size in batches}
    workload = model.asked(requests[max(batches)])
    if not isinstance(workload, TrainingWorkload):
        raise StudyError(f"{model}: a single operation is not exported")
    emit.progress("building the model")
    train, _ = workload.splits(get_dataset(workload.dataset).standin(STANDIN_SEED) if workload.dataset else {})
    built = built_within(available_memory(), workload.model)
    inputs = {size: input_batches(workload, train, asked) for size, asked in requests.items()}
    emit.progress(f"exporting it for {ENGINE}")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        _export(workload, built, inputs[max(batches)][0], path)
        emit.progress(f"timing it on {ENGINE}")
        call = _session(path, threads)
        emit.part("steps", {str(size): _seconds(call, made) for size, made in inputs.items()})


def _export(workload: TrainingWorkload, built: Any, inputs: Tree, path: Path) -> None:
    """Write a file whose batch is open."""
    if not isinstance(workload, TorchFile):
        built(inputs)  # Keras exports what was called
        built.export(str(path), format="onnx", verbose=False)
        return
    import torch

    args, named = workload.arguments(mapped(lambda leaf: workload.typed(torch.from_numpy(leaf)), inputs))
    given = named or args
    open_sizes = {name: {0: "batch"} for name in named} if named else tuple({0: "batch"} for _ in given)
    torch.onnx.export(built.module.eval(), args, str(path), kwargs=named, dynamic_shapes=open_sizes, dynamo=True)


def _session(path: Path, threads: int) -> Callable[[Tree], Any]:
    """Return what predicts a batch."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    taken = [(one.name, np.int64 if "int64" in one.type else None) for one in session.get_inputs()]

    def call(inputs: Tree) -> Any:
        by_place = zip((name for name, _ in taken), leaves(inputs), strict=False)  # constants are no inputs
        named = inputs if isinstance(inputs, dict) else dict(by_place)
        return session.run(None, {name: np.asarray(named[name], kind) for name, kind in taken})

    return call


def _seconds(call: Callable[[Tree], Any], batches: Sequence[Tree]) -> float:
    """Return the median seconds of a call over some windows."""
    call(batches[0])
    seconds: list[float] = []
    begun = time.perf_counter()
    while len(seconds) < WINDOWS and (not seconds or time.perf_counter() - begun < MAX_SECONDS):
        calls, started = 0, time.perf_counter()
        while (passed := time.perf_counter() - started) < WINDOW_SECONDS or not calls:
            call(batches[calls % len(batches)])
            calls += 1
        seconds.append(passed / calls)
    return float(np.median(seconds))


if __name__ == "__main__":
    sys.exit(main())
