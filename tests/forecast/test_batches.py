"""Requests that come at random and are answered in batches: how many a second are in time."""

import numpy as np
import pytest

from whichdevice.forecast.serving.batches import capacity, latency

STEPS = {1: 0.010, 64: 0.073}  # 1 ms an example, and 9 ms a step
ONE = np.ones(1)


def test_one_request_alone_takes_one_step():
    assert latency(STEPS, rate=0.5) == pytest.approx(0.010, rel=0.01)


def test_a_request_waits_for_the_batch_before_it():
    busy, full = latency(STEPS, rate=500.0), 64 / 0.073
    assert 0.02 < busy < 0.1
    assert latency(STEPS, rate=0.98 * full) > busy


def test_more_requests_are_in_time_where_more_time_is_given_and_never_more_than_full_batches_give():
    most = [float(capacity(STEPS, seconds, ONE)[0]) for seconds in (0.009, 0.015, 0.05, 10.0)]
    assert most[0] == 0.0 and sorted(most) == most and 0 < most[1] < most[2] < most[3] <= 64 / 0.073


def test_twice_as_slow_is_half_the_rate_at_twice_the_time():
    fast, slow = (capacity(STEPS, seconds, np.array([times]))[0] for seconds, times in ((0.05, 1.0), (0.1, 2.0)))
    assert slow == pytest.approx(fast / 2)
