"""The measured process: what a record says of the programs that ran is of those that were timed."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import synthetic

from whichdevice.base.events import Emitter
from whichdevice.measure import process
from whichdevice.measure.record import Types
from whichdevice.models.loading import Model
from whichdevice.study.cells import study_runs
from whichdevice.study.request import build_request

Measured = Callable[[Callable[[], object]], list[dict[str, Any]]]


@pytest.fixture
def backend() -> SimpleNamespace:
    """Tells of programs and memory as they are now."""
    found = SimpleNamespace(compiled="unknown", peak=1000)
    found.device = lambda: ("a CPU", 1)
    found.flags = lambda: {"jit_compile": found.compiled}
    found.types = lambda: Types(storage="float32", product="float32", sum="float32")
    found.peak_device_memory = lambda: found.peak
    return found


@pytest.fixture
def measured(backend: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Measured:
    """The parts of a record that a run sends whose training is followed by what is given."""
    study = synthetic.small_study()
    study.data.sources = {"mnist": "standin"}
    request = build_request(study, study_runs(study)[0])

    def parts(afterwards: Callable[[], object]) -> list[dict[str, Any]]:
        def run_training(*_: object) -> Callable[[], object]:
            backend.compiled = "false"
            return afterwards

        monkeypatch.setattr(process, "run_training", run_training)
        monkeypatch.setattr(process, "peak_memory", lambda: 2 * backend.peak)
        stream = io.StringIO()
        job = {"folder": str(tmp_path), "memory_limit": 1e9, "work": {}}
        process.run_request(backend, Model.read(request.module), request, job, Emitter(stream))
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    return parts


def test_settings_are_told_of_the_programs_that_ran(measured: Measured, backend: SimpleNamespace) -> None:
    parts = measured(lambda: None)
    told = [part["value"]["flags"]["jit_compile"] for part in parts if part.get("place") == "software"]
    assert told == ["unknown", "false"]


def test_peak_memory_is_the_runs_and_not_that_of_what_follows(measured: Measured, backend: SimpleNamespace) -> None:
    parts = measured(lambda: vars(backend).update(peak=5000))
    told = [part["value"] for part in parts if part.get("place") == "memory"]
    assert told == [{"peak_device": 1000, "peak_host": 2000}] and backend.peak == 5000
