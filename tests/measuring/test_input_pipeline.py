"""What a run's record has of its input pipeline."""

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest

from whichdevice.base.events import Emitter
from whichdevice.measure import input_pipeline
from whichdevice.measure.record import Pipeline


def sent(workload: Any, repeat: int = 1, **asked: Any) -> Pipeline | None:
    stream, request = io.StringIO(), SimpleNamespace(repeat=repeat, **asked)
    input_pipeline.send_pipeline(workload, request, Emitter(stream))
    parts = [json.loads(line) for line in stream.getvalue().splitlines()]
    found = [Pipeline.model_validate(part["value"]) for part in parts if part.get("place") == "pipeline"]
    return found[0] if found else None


def test_arrays_have_none_and_a_second_repeat_sends_none() -> None:
    assert sent(SimpleNamespace()) is None and sent(SimpleNamespace(has_pipeline=True), repeat=2) is None


@pytest.mark.slow
def test_a_model_files_own_pipeline_is_timed_in_a_process_of_its_own(project_root: Any) -> None:
    module = f"{project_root}/tests/models/py_dataset.py"
    found = sent(SimpleNamespace(has_pipeline=True), batch_size=8, options={}, module=module)
    assert found is not None and [rate.workers for rate in found.rates] == [0]
