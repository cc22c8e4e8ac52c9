"""What trying a file showed is told in plain lines."""

from typing import Any

import pytest

from whichdevice.checking.check import Tried, findings

FACTS: dict[str, Any] = {
    "input_shape": [64, 32, 32, 3],
    "target_shape": [64, 10],
    "parameters": 72906,
    "training_examples": 1024,
    "validation_examples": 128,
    "flops_counted": "every product of the traced step",
    "estimated_memory": 9.2e8,
}
MODEL = {
    "kind": "Sequential", "inputs": ["uint8 (32, 32, 3)"], "outputs": ["float32 (10,)"], "forward_flops": 1.7e6,
    "training_flops": 3.5e6,
}  # fmt: skip
ROW = {
    "device": "T4", "status": "ok", "reason": None, "batch": 64, "fits": True, "memory_bytes": 1e9,
    "memory_available_bytes": 15.2e9, "step_time": 0.012, "step_time_low": 0.01, "step_time_high": 0.02,
}  # fmt: skip


def tried(*losses: float | None) -> Tried:
    return Tried("ok", None, {"workload": FACTS, "model": MODEL, "losses": {"of_steps": list(losses)}})


def lines(*forecasts: dict[str, Any], **each: Tried) -> str:
    return "\n".join(findings("mine.py", each, forecasts, ()))


def test_the_model_its_data_work_and_memory_come_first():
    text = lines(jax=tried(2.0, 1.0))
    assert "Sequential with 72,906 parameters: uint8 (32, 32, 3) to float32 (10,)" in text
    assert "1,024 training and 128 validation examples" in text
    assert "0.0017 GFLOP an example forward, 0.0035 to train on it (every product of the traced step)" in text
    assert "about 0.9 GB on a CPU at batch 64 (estimate)" in text


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ((2.0, 1.5), "ok: loss 2 to 1.5 in 2 steps"),
        ((2.0, 2.0), "ok, but the loss does not fall"),
        ((-1.0, -1.5), "ok: loss -1 to -1.5 in 2 steps"),
        ((-1.5, -1.499), "ok, but the loss does not fall"),
    ],
)
def test_each_backend_says_whether_the_loss_falls(losses, words):
    assert words in lines(jax=tried(*losses))


def test_a_failure_is_its_reason_and_the_other_backends_still_tell():
    text = lines(jax=tried(2.0, 1.0), torch=Tried("failed", "mine.py: model() fails on torch: no such layer"))
    assert "torch       failed: mine.py: model() fails on torch: no such layer" in text
    assert "jax         ok" in text


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "T4: fits: 1 of 15.2 GB; a step of 64 in 12 ms (10 to 20; nobody ran it)"),
        ({"fits": False}, "T4: does not fit: 1 of 15.2 GB"),
        ({"step_time": None, "status": "unavailable", "reason": "no compiler"}, "T4: unavailable: no compiler"),
    ],
)
def test_a_forecast_says_whether_it_fits_and_how_long_a_step_takes(said, words):
    assert words in lines({**ROW, **said}, jax=tried(2.0, 1.0))
