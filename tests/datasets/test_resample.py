"""Irregular observations become hourly signals as in the published recipe."""

import numpy as np
import pandas as pd
import pytest

from whichdevice.datasets.resample import HOUR, SIGNALS, Observations, hourly
from whichdevice.errors import StudyError

START = 320756400  # 1980-03-01 11:00 UTC


def observed(random: np.random.Generator, count: int = 300, span_hours: int = 100) -> Observations:
    minutes = np.sort(random.choice(span_hours * 60, count, replace=False))
    values = random.normal(10, 5, (count, 4))
    values[random.random(values.shape) < 0.3] = np.nan
    return Observations(START + 60 * minutes.astype(np.int64), values)


def published(observations: Observations) -> pd.DataFrame:
    """The steps of Hvass-Labs' weather.py, in today's pandas."""
    frame = pd.DataFrame(observations.values, index=pd.to_datetime(observations.times, unit="s"), columns=SIGNALS)
    frame = frame.dropna(axis=0, how="all").resample("1min").interpolate(method="time")
    return frame.resample("60min").interpolate().dropna(how="all")


def test_agrees_with_the_published_steps() -> None:
    random = np.random.default_rng(3)
    cities = {name: observed(random) for name in ("a", "b", "c")}
    frame = pd.concat([published(each) for each in cities.values()], axis=1, join="inner")
    result = hourly(cities)
    np.testing.assert_array_equal(result["times"], frame.index.to_numpy("datetime64[s]").astype(np.int64))
    expected = frame.to_numpy()
    there = ~np.isnan(expected)  # weather.py leaves NaN before a signal's first value
    assert there.mean() > 0.95
    np.testing.assert_allclose(result["signals"][there], expected[there], rtol=1e-5)


def test_nothing_is_missing_and_hours_are_regular() -> None:
    random = np.random.default_rng(4)
    result = hourly({"a": observed(random), "b": observed(random)})
    assert result["signals"].dtype == np.float32
    assert result["signals"].shape == (len(result["times"]), 8)
    assert not np.isnan(result["signals"]).any()
    assert set(np.diff(result["times"])) == {HOUR}
    assert (result["times"] % HOUR == 0).all()


def test_order_and_repeated_times_do_not_matter() -> None:
    city = observed(np.random.default_rng(5))
    back = Observations(city.times[::-1], city.values[::-1])
    twice = Observations(np.concatenate([city.times, city.times]), np.concatenate([city.values, city.values + 1]))
    expected = hourly({"a": city})["signals"]
    np.testing.assert_array_equal(hourly({"a": back})["signals"], expected)
    np.testing.assert_array_equal(hourly({"a": twice})["signals"], expected)


def test_a_signal_without_any_value_is_named() -> None:
    city = observed(np.random.default_rng(6))
    city.values[:, 1] = np.nan
    with pytest.raises(StudyError, match="weather of a: no observation of pressure"):
        hourly({"a": city})


def test_cities_without_a_common_hour_are_an_error() -> None:
    city = observed(np.random.default_rng(7))
    with pytest.raises(StudyError, match="no hour in common"):
        hourly({"a": city, "b": Observations(city.times + 10**6 * HOUR, city.values)})
