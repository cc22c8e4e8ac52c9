"""A request that was not answered never counts as a fast one; inputs are such as the model takes."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from whichdevice.errors import StudyError
from whichdevice.measuring.serving_run import _answered, _inputs
from whichdevice.serving.load_process import Answers
from whichdevice.workloads.base import RawInput


def process(failed: int):
    """Clients of whom so many were sent away at once."""
    return SimpleNamespace(load=lambda *a, **k: Answers(0.1, [0.01], failed, "503 busy" if failed else None))


def test_predictions_that_were_sent_away_are_no_throughput():
    _answered(process(0), "/p", Path("body"), 300, 1000)
    with pytest.raises(StudyError, match="40 of 1000 requests were not answered: 503 busy"):
        _answered(process(40), "/p", Path("body"), 300, 1000)


def test_whole_numbers_stay_below_the_bound_of_the_input():
    served = SimpleNamespace(
        raw_input=lambda model: RawInput("inputs", "int32", (None,), below=7),
        sequence_length=50,
        recipe=SimpleNamespace(sequence_length=50),
    )
    inputs = _inputs(served, None, SimpleNamespace(batch_size=4, seed=1))
    assert inputs.shape == (4, 50) and inputs.max() == 6
