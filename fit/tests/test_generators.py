"""Seconds of images and videos on a GPU, against published ones."""

import numpy as np
import pytest
from fit.generators import FITTED, Row, left_out, missed, published
from fit.scores import score

from whichdevice.base.files import json_of
from whichdevice.forecast.serving.generators import GENERATOR_CONSTANTS


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """All published times."""
    return published()


def test_the_constants_are_of_these_rows(rows: list[Row]) -> None:
    """They forecast the times that they were fitted to."""
    fitted = [row for row in rows if row.source == FITTED]
    assert len(fitted) > 60
    assert score(missed(fitted, json_of(GENERATOR_CONSTANTS)["factors"]))["median_error"] < 0.12


def test_a_device_left_out_of_the_fit_is_met_within_a_tenth(rows: list[Row]) -> None:
    """Times on one chip forecast those on the other, as attention runs at Ampere's rate in a clock on both."""
    fitted = [row for row in rows if row.source == FITTED]
    assert score(left_out(fitted, lambda row: row.one.row.device))["median_error"] < 0.1


def test_times_of_others_are_mostly_within_a_tenth(rows: list[Row]) -> None:
    """Stable Diffusion, FLUX, SANA, CogVideoX and Wan, most on chips of which no time was fitted."""
    others = [row for row in rows if row.source != FITTED]
    assert {row.one.model.name.partition("/")[0] for row in others} >= {"Wan-AI", "black-forest-labs"}
    logs = np.abs(missed(others, json_of(GENERATOR_CONSTANTS)["factors"]))
    assert np.median(logs) < np.log(1.1) and logs.max() < np.log(1.5)
