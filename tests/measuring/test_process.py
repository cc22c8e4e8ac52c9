"""The measured process: what a record says of the programs that ran is of those that were timed."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import synthetic

from whichdevice.measuring import process
from whichdevice.measuring.events import Emitter
from whichdevice.measuring.request import build_request
from whichdevice.records.facts import Types
from whichdevice.study_runs import study_runs


def test_settings_are_told_before_the_breakdown_builds_programs_with_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = synthetic.small_study()
    study.data.sources = {"mnist": "standin"}
    request = build_request(study, study_runs(study)[0])
    flags = {"jit_compile": "unknown"}

    def run_training(*_: object) -> object:
        flags["jit_compile"] = "false"
        return lambda: flags.update(jit_compile="true")

    monkeypatch.setattr(process, "run_training", run_training)
    backend = SimpleNamespace(
        device=lambda: ("a CPU", 1),
        flags=lambda: flags,
        types=lambda: Types(storage="float32", product="float32", sum="float32"),
        peak_device_memory=lambda: None,
    )
    stream = io.StringIO()
    process.run_request(backend, request, {"folder": str(tmp_path), "memory_limit": 1e9}, Emitter(stream))
    parts = [json.loads(line) for line in stream.getvalue().splitlines()]
    told = [part["value"]["flags"]["jit_compile"] for part in parts if part.get("place") == "software"]
    assert told == ["unknown", "false"] and flags["jit_compile"] == "true"
