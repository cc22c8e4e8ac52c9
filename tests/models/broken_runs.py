"""Measures every model file named on the command line in one process, and prints how each run ended, a line each."""

import io
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from backends.scenario import run_with_keras

from whichdevice.base.events import Emitter
from whichdevice.measure.backends import backend_class
from whichdevice.measure.process import run_request
from whichdevice.measure.record import Request
from whichdevice.measure.run_end import run_to_end
from whichdevice.models.loading import Model

MEMORY = 8e9  # bytes; a fixed limit, so that the outcome does not depend on the machine


def measured(
    backend: str, files: Sequence[str], options: Mapping[str, Any], batch: int, seconds: float = 400.0
) -> dict[str, tuple[str, str | None]]:
    """Status and reason of a run of each file."""
    first = request_for(files[0], backend, options, batch)
    program = ["", __file__, backend, json.dumps(options), str(batch), *files]
    done = run_with_keras(program, backend_class(backend).environment(first, 1), seconds)
    ends = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"event": "end"')]
    assert len(ends) == len(files), done.stdout + done.stderr
    return {file: (end["status"], end["reason"]) for file, end in zip(files, ends, strict=True)}


def request_for(file: str, backend: str, options: Mapping[str, Any], batch: int) -> Request:
    """A run of a few steps on this host's CPU."""
    model = Model.read(file)
    return Request(
        device="cpu", kind="cpu", replicas=1, workload=model.name, module=model.text, backend=backend,
        precision="float32", batch_size=batch, fraction=1.0,
        sequence_length=None, repeat=1, seed=1, epochs=0, steps_per_epoch=None, validation=False, learn=False,
        seconds=0.0, min_steps=1, timeout=0.0, dataset=model.dataset, source=None, options=dict(options),
    )  # fmt: skip


def main() -> None:
    """The ends, as a study would record them."""
    name, options, batch, *files = sys.argv[1:]
    requests = [request_for(file, name, json.loads(options), int(batch)) for file in files]
    backend = backend_class(name, Model.read(files[0]).framework)(requests[0], 1)
    backend.start()
    backend.initialise()
    for file, request in zip(files, requests, strict=True):
        stream, model = io.StringIO(), Model.read(file)
        backend.request = request
        with tempfile.TemporaryDirectory() as folder:
            job = {"folder": folder, "memory_limit": MEMORY, "work": {}}
            run_to_end(
                partial(run_request, backend, model, request, job, Emitter(stream)), backend, model, Emitter(stream)
            )
        print(stream.getvalue().splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
    print(json.dumps({"event": "all"}))
