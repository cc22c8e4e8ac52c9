"""What a run's record has of its input pipeline."""

import io
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whichdevice.base.events import Emitter
from whichdevice.measure import input_pipeline
from whichdevice.measure.record import Pipeline
from whichdevice.models.batch_order import Permutations
from whichdevice.models.pipeline import Rate

FOUND = SimpleNamespace(pipeline=(Rate(0, 100.0, 0.1, True), Rate(2, 180.0, 0.2, False)))


class Loop:
    def __init__(self, feeds: bool) -> None:
        self.feeds = feeds

    def fed(self, batches: np.ndarray) -> Iterator[np.ndarray] | None:
        return (np.zeros(len(each)) for each in batches) if self.feeds else None


def broken(batches: np.ndarray) -> None:
    raise ValueError


def sent(workload: Any, loop: Any, replicas: int = 1) -> Pipeline | None:
    stream, request = io.StringIO(), SimpleNamespace(replicas=replicas, batch_size=4)
    input_pipeline.send_pipeline(workload, loop, Permutations(40, 4, 1), request, Emitter(stream))
    parts = [json.loads(line) for line in stream.getvalue().splitlines()]
    found = [Pipeline.model_validate(part["value"]) for part in parts if part.get("place") == "pipeline"]
    return found[0] if found else None


def test_a_scripts_rates_are_its_own_and_fit_is_fed_from_the_host() -> None:
    own = sent(SimpleNamespace(found=FOUND), Loop(True))
    assert own is not None and own.origin == "own"
    assert [(rate.workers, rate.examples_per_second, rate.written) for rate in own.rates] == [
        (0, 100.0, True), (2, 180.0, False),
    ]  # fmt: skip
    fit = sent(SimpleNamespace(), Loop(True))
    assert fit is not None and fit.origin == "fit" and fit.rates[0].examples_per_second > 0


@pytest.mark.parametrize(("loop", "replicas"), [(Loop(False), 1), (Loop(True), 2), (SimpleNamespace(fed=broken), 1)])
def test_data_on_the_device_several_replicas_and_a_fault_have_none(loop: Any, replicas: int) -> None:
    assert sent(SimpleNamespace(), loop, replicas) is None


@pytest.mark.slow
def test_a_model_files_own_pipeline_is_timed_in_a_process_of_its_own(project_root: Any) -> None:
    request = SimpleNamespace(replicas=1, batch_size=8, options={}, module=f"{project_root}/tests/models/py_dataset.py")
    stream = io.StringIO()
    workload: Any = SimpleNamespace(has_pipeline=True)
    input_pipeline.send_pipeline(workload, Loop(True), Permutations(40, 4, 1), request, Emitter(stream))
    part = json.loads(stream.getvalue().splitlines()[-1])
    assert part["value"]["origin"] == "own" and [rate["workers"] for rate in part["value"]["rates"]] == [0]
