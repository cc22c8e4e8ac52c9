"""The parts of a step: they add up, noise makes none negative, and failing to find them fails no run."""

from types import SimpleNamespace

import pytest

from whichdevice.measure.breakdown import (
    AS_TIMED,
    ONE_BATCH,
    ONE_STEP,
    ONE_WEIGHT,
    explain_step,
    least_seconds,
    split_up,
)

PARTS = ("input", "host", "compute", "other")


def rounds_of(as_timed: float, one_batch: float, one_weight: float, one_step: float, steps: int = 10) -> list:
    """One round of windows of so many seconds."""
    seconds = {AS_TIMED: as_timed, ONE_BATCH: one_batch, ONE_WEIGHT: one_weight}
    return [{**{name: (steps, took) for name, took in seconds.items()}, ONE_STEP: (1, one_step)}]


def test_each_part_is_what_its_variant_leaves_out() -> None:
    # A call costs 20 ms, the loop 1 ms a step, the batch 3 ms a step, computing 16 ms a step.
    found = split_up(rounds_of(as_timed=0.22, one_batch=0.19, one_weight=0.03, one_step=0.021))
    assert found.step_time == pytest.approx(0.022)
    expected = {"input": 0.003, "host": 0.001, "compute": 0.016, "other": 0.002}
    assert {name: getattr(found, name) for name in PARTS} == pytest.approx(expected)
    assert found.notes == []


def test_gaps_between_operations_are_the_host_where_they_are_known() -> None:
    found = split_up(rounds_of(0.22, 0.19, 0.03, 0.021), gap_share=0.5)
    assert found.host == pytest.approx(0.0095)
    assert sum(getattr(found, name) for name in PARTS) == pytest.approx(found.step_time)
    assert "profiler" in found.method


def test_what_noise_makes_negative_is_zero_and_said() -> None:
    found = split_up(rounds_of(as_timed=0.18, one_batch=0.19, one_weight=0.03, one_step=0.001))
    assert found.input == found.other == 0
    assert [note.split(" ")[0] for note in found.notes] == ["other", "input"]
    assert sum(getattr(found, name) for name in PARTS) == pytest.approx(found.step_time)


def test_a_step_too_long_for_the_run_is_not_broken_down() -> None:
    sent = []
    emit = SimpleNamespace(progress=lambda *_: None, part=lambda place, found: sent.append((place, found)))
    request = SimpleNamespace(replicas=1, seconds=1.0)
    explain_step(SimpleNamespace(), None, None, None, None, None, request, 0.5, emit)
    [(place, found)] = sent
    assert place == "breakdown" and found.step_time is None
    assert found.reason == "a step takes 0.5 s, too long to break down in a run this short"
    assert least_seconds(0.5) > 6 * request.seconds > least_seconds(0.3)
