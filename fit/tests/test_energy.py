"""How good forecasts of watts are for models and chips that the fit did not see: fit/energy.py."""

import math

import numpy as np
import pytest
from fit.energy import KEYS, Run, left_out, runs
from fit.scores import Z80

from whichdevice.base.files import json_of
from whichdevice.decide.energy import POWER_CONSTANTS, board_share


@pytest.fixture(scope="module")
def measured() -> list[Run]:
    return runs()


@pytest.mark.parametrize(("what", "median"), [("a model", 0.10), ("a chip", 0.15)])
def test_what_is_left_out_is_forecast_better_than_by_the_naive_rule(
    what: str, median: float, measured: list[Run]
) -> None:
    errors, naive = left_out(measured, KEYS[what])
    off = np.abs(np.expm1(errors))
    assert len(measured) >= 1000 and float(np.median(off)) <= median
    assert 0.75 <= np.mean(np.abs(errors) <= Z80 * json_of(POWER_CONSTANTS)["log_sd"]) <= 0.90
    assert np.median(off) < np.median(np.abs(np.expm1(naive)))


def test_the_constants_are_those_of_these_runs(measured: list[Run]) -> None:
    inside = [run for run in measured if run.devices <= 8]
    shares = [board_share(run.decodes, run.operations, run.nbytes, run.devices) for run in inside]
    logs = [math.log(share / run.share) for share, run in zip(shares, inside, strict=True)]
    assert abs(float(np.median(logs))) < 0.03 and float(np.median(np.abs(logs))) < 0.10
