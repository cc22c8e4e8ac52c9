"""Latencies are those of single calls in steady state; how many there must be."""

import time

import numpy as np
import pytest

from whichdevice.base.errors import StudyError
from whichdevice.measure.inference_run import MIN_CALLS, Calls, latency_of

BATCHES = [np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)]


def test_calls_before_steady_state_are_not_counted_and_few_are_added_to():
    slow = iter([0.5] * 3)

    def forward(inputs):
        time.sleep(next(slow, 0.0))
        return inputs

    calls = Calls(forward, BATCHES)
    calls.prepare(3)()
    calls.prepare(50)()
    latencies = calls.latencies(50, 60.0)
    assert len(latencies) == MIN_CALLS
    assert latencies.max() < 0.5


def test_predictions_that_are_no_number_end_the_run_at_the_first_call():
    calls = Calls(lambda inputs: inputs / 0 if inputs[0, 0] else inputs * np.nan, BATCHES)
    with pytest.raises(StudyError, match="the first predictions are not finite"):
        calls.prepare(1)()


@pytest.mark.parametrize(("count", "known"), [(99, False), (100, True)])
def test_a_99th_percentile_needs_100_calls(count, known):
    latency = latency_of(np.linspace(0.001, 0.002, count))
    assert (latency.p99 is not None) == known
    assert latency.p50 == pytest.approx(0.0015)
