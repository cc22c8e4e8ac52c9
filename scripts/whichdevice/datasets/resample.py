"""Irregular weather observations with gaps become one regular hourly table.

As in Hvass-Labs' weather.py (TensorFlow Tutorial #23): per city, rows without any value are dropped and each signal
is interpolated linearly in time at every full hour; then only hours that all cities cover are kept. Wind direction is
interpolated in degrees like any other signal, so a gap across north passes through south, as it does there. One thing
differs: before a signal's first value, weather.py leaves NaN; here the first value is repeated, as both do with the
last value after its end. That concerns the pressure of Esbjerg and Roskilde, which the recipe drops.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from whichdevice.datasets.base import Arrays
from whichdevice.errors import StudyError

HOUR = 3600
SIGNALS = ("temperature", "pressure", "wind_speed", "wind_direction")  # °C, hPa, m/s, degrees


class Observations(NamedTuple):
    """One city's observations: Unix seconds int64 [n] in any order and values float [n, signals], NaN where missing."""

    times: np.ndarray
    values: np.ndarray


def hourly(cities: Mapping[str, Observations]) -> Arrays:
    """`signals` float32 [hours, cities * signals] without NaN and `times` int64 [hours]; raises StudyError."""
    known = {city: _drop_empty(observations) for city, observations in cities.items()}
    for city, observations in known.items():
        empty = [name for name, column in zip(SIGNALS, observations.values.T, strict=True) if np.isnan(column).all()]
        if empty or not len(observations.times):
            raise StudyError(f"weather of {city}: no observation of {', '.join(empty or SIGNALS)}")
    start = max(-(-observations.times[0] // HOUR) for observations in known.values()) * HOUR
    end = min(observations.times[-1] // HOUR for observations in known.values()) * HOUR
    if end < start:
        raise StudyError(f"weather: {', '.join(cities)} have no hour in common")
    times = np.arange(start, end + 1, HOUR, dtype=np.int64)
    columns = [
        _interpolate(times, observations.times, column)
        for observations in known.values()
        for column in observations.values.T
    ]
    return {"signals": np.stack(columns, axis=1).astype(np.float32), "times": times}


def _drop_empty(observations: Observations) -> Observations:
    """Sorted by time, the first of equal times, rows with at least one value."""
    filled = ~np.isnan(observations.values).all(axis=1)
    times, index = np.unique(observations.times[filled], return_index=True)
    return Observations(times.astype(np.int64), observations.values[filled][index])


def _interpolate(times: np.ndarray, known: np.ndarray, values: np.ndarray) -> np.ndarray:
    there = ~np.isnan(values)
    return np.interp(times, known[there], values[there])
