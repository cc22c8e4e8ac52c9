"""What a run's record has of its input pipeline."""

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest

from whichdevice.base.events import Emitter
from whichdevice.measure import input_pipeline
from whichdevice.measure.record import Pipeline
from whichdevice.models.pipeline import Rate

FOUND = SimpleNamespace(pipeline=(Rate(0, 100.0, 0.1, True), Rate(2, 180.0, 0.2, False)))


def sent(workload: Any, repeat: int = 1, **asked: Any) -> Pipeline | None:
    stream, request = io.StringIO(), SimpleNamespace(repeat=repeat, **asked)
    input_pipeline.send_pipeline(workload, request, Emitter(stream))
    parts = [json.loads(line) for line in stream.getvalue().splitlines()]
    found = [Pipeline.model_validate(part["value"]) for part in parts if part.get("place") == "pipeline"]
    return found[0] if found else None


def test_a_scripts_rates_are_its_own() -> None:
    own = sent(SimpleNamespace(found=FOUND))
    assert own is not None
    assert [(rate.workers, rate.examples_per_second, rate.written) for rate in own.rates] == [
        (0, 100.0, True), (2, 180.0, False),
    ]  # fmt: skip


def test_arrays_have_none_and_a_second_repeat_sends_none() -> None:
    assert sent(SimpleNamespace()) is None and sent(SimpleNamespace(found=FOUND), repeat=2) is None


@pytest.mark.slow
def test_a_model_files_own_pipeline_is_timed_in_a_process_of_its_own(project_root: Any) -> None:
    module = f"{project_root}/tests/models/py_dataset.py"
    found = sent(SimpleNamespace(has_pipeline=True), batch_size=8, options={}, module=module)
    assert found is not None and [rate.workers for rate in found.rates] == [0]
