"""Runs of modes predict and generate in a process of one backend: `python mode_runs.py CASES JOB.json RESULT.json`.

CASES is a module with a function `difference(backend, request)`.
"""

import importlib
import json
import sys
from io import StringIO
from pathlib import Path

from backends.scenario import request_for, variables_for, written


def in_process(cases: str, folder: Path, runs: dict[str, dict], **request) -> dict[str, dict]:
    """For each run the parts of its record and its `difference`, or why it is refused; all in one process."""
    asked = request_for(learn=False, epochs=0, seconds=0.1, **request)
    job = folder / "job.json"
    job.write_text(json.dumps({"request": asked.model_dump(), "runs": runs}))
    return written(__file__, folder, variables_for(asked), cases, str(job))[0]


def main() -> None:
    cases, job = importlib.import_module(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    from whichdevice.base.errors import StudyError
    from whichdevice.base.events import Emitter
    from whichdevice.measure.backends import backend_class
    from whichdevice.measure.process import run_request
    from whichdevice.measure.record import Request
    from whichdevice.models.loading import Model

    found = {}
    for name, asked in job["runs"].items():
        request = Request(**{**job["request"], **asked})
        backend = backend_class(request.backend, Model.read(request.module).framework)(request, 2)
        backend.start()
        backend.initialise()
        stream = StringIO()
        try:
            limits = {"folder": ".", "memory_limit": 1e11, "work": {}}
            run_request(backend, Model.read(request.module), request, limits, Emitter(stream))
        except StudyError as error:
            found[name] = {"refused": str(error)}
            continue
        parts: dict = {}
        for message in map(json.loads, stream.getvalue().splitlines()):
            if message["event"] == "part":
                parts.setdefault(message["place"], {}).update(message["value"])
        found[name] = {**parts, "difference": cases.difference(backend, request)}
    Path(sys.argv[3]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
