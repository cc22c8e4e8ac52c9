"""What a published claim means: operations over time, and the peak of the device that it names."""

import pytest

from whichdevice.config.hardware import HardwareRow
from whichdevice.tables.published import Work, epoch_seconds, examples, peak, tflops

WORK = Work(flops=2e9, examples=60_000)


def claim(**changes: str) -> dict[str, str]:
    """A published figure."""
    return {
        "source": "Someone", "device": "TPU v2-8", "workload": "mnist_cnn", "batch_size": "256", "metric": "step_time",
        "value": "100", "unit": "ms", "epochs": "10", "steps_per_epoch": "", "sequence_length": "", "hardware": "Chip",
        "chips": "4",
    } | changes  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "covered"),
    [
        ({}, 256),
        ({"unit": "us/sample"}, 1),
        ({"metric": "epoch_time", "unit": "s"}, 234 * 256),
        ({"metric": "epoch_time", "unit": "s", "steps_per_epoch": "100"}, 25_600),
        ({"metric": "epoch_time", "unit": "s", "batch_size": ""}, 60_000),
        ({"metric": "wall_time", "unit": "s", "steps_per_epoch": "10"}, 25_600),
        ({"metric": "wall_time", "unit": "s", "epochs": ""}, None),
        ({"batch_size": ""}, None),
    ],
)
def test_a_time_covers_so_many_examples(changes: dict[str, str], covered: float | None) -> None:
    assert examples(claim(**changes), WORK.examples) == covered


def test_a_rate_is_operations_over_time() -> None:
    assert tflops(claim(), WORK) == pytest.approx(256 * 2e9 / 0.1 / 1e12)
    assert tflops(claim(unit="us/sample"), WORK) == pytest.approx(2e9 / 100e-6 / 1e12)
    assert tflops(claim(sequence_length="100"), WORK) == pytest.approx(100 * 256 * 2e9 / 0.1 / 1e12)
    assert tflops(claim(unit="TFLOP/s", value="15.7"), None) == 15.7
    assert tflops(claim(), None) is None
    assert tflops(claim(value=""), WORK) is None


def test_a_peak_is_that_of_all_chips_in_the_quickest_format() -> None:
    sheet = {"Chip": HardwareRow(device="Chip", kind="tpu", fp32_tflops=4, half_dense_tflops=46)}
    found = peak(claim(), sheet)
    assert found is not None and (found.name, found.tflops) == ("4 × Chip", 184)
    assert peak(claim(hardware=""), sheet) is None
    assert peak(claim(hardware="unheard of"), sheet) is None


def test_every_time_but_a_first_epoch_implies_an_epoch() -> None:
    assert epoch_seconds(claim(), 60_000) == pytest.approx(23.4)
    assert epoch_seconds(claim(metric="wall_time", unit="s"), 60_000) == pytest.approx(10)
    assert epoch_seconds(claim(metric="first_epoch_time", unit="s"), 60_000) is None
