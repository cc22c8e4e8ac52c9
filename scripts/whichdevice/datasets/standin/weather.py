"""Stand-in for the Danish weather: five cities under the same moving weather, with gaps.

Temperature is season + day + air mass, pressure and wind follow the same lows; fronts come from the west, so Esbjerg
has each of them hours before Roskilde. Observations are rounded as the real ones are and some are missing; then the
same function that reads the published archive makes them hourly. The random part is about as predictable a day
ahead as real weather: better than the calendar alone, far from perfect.
"""

import numpy as np

from whichdevice.datasets.base import Arrays
from whichdevice.datasets.resample import HOUR, Observations, hourly

START = 320756400  # 1980-03-01 11:00 UTC
HOURS = 333109
# Hours that weather takes from the west coast to the city, mean temperature (°C), sea's damping, wind factor.
CITIES = {
    "Aalborg": (3, 7.9, 1.0, 1.0),
    "Aarhus": (4, 8.3, 0.95, 0.85),
    "Esbjerg": (0, 8.5, 0.8, 1.2),
    "Odense": (4, 8.7, 0.95, 0.9),
    "Roskilde": (8, 8.4, 1.0, 1.0),
}
PAD = 24


def make_weather(seed: int, hours: int = HOURS) -> Arrays:
    """`signals` float32 [hours, 20] and `times` int64 [hours]; `hours` makes a shorter series."""
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 1980])))
    west = _west_coast(random, hours + PAD)
    times = START + HOUR * np.arange(hours, dtype=np.int64)
    cities = {}
    for city in CITIES:
        values = _city(random, west, times, city)
        _lose(random, values, city)
        values[[0, -1]] = np.where(np.isnan(values[[0, -1]]), [8.0, 1012.0, 5.0, 240.0], values[[0, -1]])
        cities[city] = Observations(times, values)
    return hourly(cities)


def _recall(series: np.ndarray, memory: float) -> np.ndarray:
    """Each hour adds to what is left of the hours before; a share of 1/memory fades every hour."""
    from scipy.signal import lfilter  # type: ignore[import-untyped]  # a second to import, needed only here

    return lfilter([1.0], [1.0, -(1 - 1 / memory)], series)


def _noise(random: np.random.Generator, hours: int, deviation: float, *memories: float) -> np.ndarray:
    """Noise of that standard deviation, smoothed once for each memory (hours)."""
    series = random.random(hours) - 0.5
    for memory in memories:
        series = _recall(series, memory)
    return series * (deviation / series.std())


def _west_coast(random: np.random.Generator, hours: int) -> dict[str, np.ndarray]:
    """The weather as it reaches the west coast, one value per hour, anomalies in °C, hPa and m/s."""
    strike = np.where(random.random(hours) < 1 / 90, random.random(hours) - 0.5, 0.0)  # a front every four days or so
    jump = _recall(strike, 80)  # air changes at once and recovers over days
    low = -_noise(random, hours, 1.0, 30, 10) - 2.5 * _recall(_recall(np.abs(strike), 12.5), 12.5) / 12
    pressure = 9.5 * (low - low.mean()) / low.std()
    tendency = np.convolve(pressure, np.array([1.0] * 3 + [-1.0] * 3) / 9, mode="same")  # hPa per hour
    west_wind = 2.5 - 2.2 * tendency - 0.12 * pressure + _noise(random, hours, 3.0, 30, 6)
    south_wind = 0.5 + 1.5 * tendency + _noise(random, hours, 3.0, 30, 6)
    mild = _recall(south_wind, 60) / 60
    warmth = 3.4 * jump / max(jump.std(), 1e-9) * 0.55 + 1.2 * mild + _noise(random, hours, 3.2, 70, 8)
    cloud = 0.5 - 0.035 * pressure + _noise(random, hours, 0.25, 20, 4)
    return {
        "warmth": warmth,
        "pressure": pressure,
        "west_wind": west_wind,
        "south_wind": south_wind,
        "cloud": np.clip(cloud, 0, 1),
    }


def _city(random: np.random.Generator, west: dict[str, np.ndarray], times: np.ndarray, city: str) -> np.ndarray:
    """Observations float64 [hours, 4], rounded to .1 °C, .1 hPa, .1 m/s and 10°."""
    lag, mean, damping, gusts = CITIES[city]
    hours = len(times)
    here = {name: series[PAD - lag : PAD - lag + hours] for name, series in west.items()}
    year = (times / (365.2425 * 86400)) % 1
    day = (times / 86400 + 0.03) % 1
    summer = -np.cos(2 * np.pi * (year - 0.055))  # coldest at the end of January
    sun = (0.55 + 0.45 * summer) * (1 - 0.7 * here["cloud"])
    temperature = mean + damping * 8.2 * summer + damping * 5.2 * sun * -np.cos(2 * np.pi * (day - 0.11))
    temperature += (1 - 0.25 * summer) * here["warmth"] + _noise(random, hours, 0.5, 8)
    pressure = 1012.5 + (1 - 0.3 * summer) * here["pressure"] + _noise(random, hours, 0.25, 6)
    along = (1 - 0.2 * summer) * here["west_wind"] + _noise(random, hours, 0.7, 4)
    up = (1 - 0.2 * summer) * here["south_wind"] + _noise(random, hours, 0.7, 4)
    speed = gusts * np.hypot(along, up) * (0.85 - 0.25 * np.cos(2 * np.pi * (day - 0.08)) * sun)
    direction = np.degrees(np.arctan2(-along, -up)) % 360  # where it blows from: 270 is west
    return np.stack(
        [np.round(temperature, 1), np.round(pressure, 1), np.round(speed, 1), np.round(direction, -1)], axis=1
    )


def _lose(random: np.random.Generator, values: np.ndarray, city: str) -> None:
    """Blank single values, hours and days of outage, and pressures that were not recorded for years."""
    hours, signals = values.shape
    values[random.random((hours, signals)) < 0.02] = np.nan
    for _ in range(max(1, hours // 1500)):
        start, length = int(random.integers(0, hours)), int(1 + 60 * random.random() ** 4)
        values[start : start + length] = np.nan
    if city == "Esbjerg":
        values[: hours // 5, 1] = np.nan
    if city == "Roskilde":
        values[: hours // 8, 1] = np.nan
        values[hours // 2 : hours // 2 + hours // 6, 1] = np.nan
