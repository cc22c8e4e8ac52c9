"""Hourly weather of five Danish cities, 1980 to 2018, from Hvass-Labs' archive of NCDC observations, and its stand-in.

The archive holds clearly wrong values too (temperatures near 50 °C, for instance); they are kept, as in the published
recipe. Only the CSV of observations is read; the archive's pickle is never opened.
"""

import tarfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

import numpy as np

from whichdevice.datasets.base import Archive, Array, Arrays, Recipe
from whichdevice.datasets.download import DAMAGE, LIMIT, prepare_tfds, require, unpacked
from whichdevice.errors import StudyError

HOUR = 3600
SIGNALS = ("temperature", "pressure", "wind_speed", "wind_direction")  # °C, hPa, m/s, degrees
CITIES = ("Aalborg", "Aarhus", "Esbjerg", "Odense", "Roskilde")
CSV = "weather-denmark.csv"
SIGNAL_COLUMNS = ["Temp", "Pressure", "WindSpeed", "WindDir"]  # in the order of resample.SIGNALS
COLUMNS = ["City", "DateTime", *SIGNAL_COLUMNS]
# Headers of a tar that are read into memory at once: long names and further attributes.
EXTENDED = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
MAX_HEADER_BYTES = 2**20
START = 320756400  # 1980-03-01 11:00 UTC
HOURS = 333109
# Hours that weather takes from the west coast to the city, mean temperature (°C), sea's damping, wind factor.
CLIMATES = {
    "Aalborg": (3, 7.9, 1.0, 1.0),
    "Aarhus": (4, 8.3, 0.95, 0.85),
    "Esbjerg": (0, 8.5, 0.8, 1.2),
    "Odense": (4, 8.7, 0.95, 0.9),
    "Roskilde": (8, 8.4, 1.0, 1.0),
}
PAD = 24
ARCHIVE = Archive(
    "weather-denmark.tar.gz",
    "https://github.com/Hvass-Labs/weather-denmark/raw/master/weather-denmark.tar.gz",
)


class Observations(NamedTuple):
    """One city's observations: Unix seconds int64 [n] in any order and values float [n, signals], NaN where missing."""

    times: np.ndarray
    values: np.ndarray


def hourly(cities: Mapping[str, Observations]) -> Arrays:
    """Make `signals` float32 [hours, cities * signals] without NaN and `times` int64 [hours]; raises StudyError.

    As in Hvass-Labs' weather.py (TensorFlow Tutorial #23): per city, rows without any value are dropped and each signal
    is interpolated linearly in time at every full hour; then only hours that all cities cover are kept. Wind direction
    is interpolated in degrees like any other signal. One thing differs: before a signal's first value, weather.py
    leaves NaN; here the first value is repeated. It concerns the pressure of Esbjerg and Roskilde.
    """
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


class Member(tarfile.TarInfo):
    """A member whose reading raises tarfile.ReadError where a header would fill the memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "Member":
        """A member of the 512 bytes of its header."""
        member = super().frombuf(buf, encoding, errors)
        if member.type in EXTENDED and not 0 <= member.size <= MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header says that it has {member.size:,} bytes")
        return member


def read_archive(path: Path, limit: int = LIMIT) -> dict[str, Observations]:
    """Observations of each city, in the order of CITIES.

    Nothing is unpacked to disk. Raises StudyError when the archive is cut, corrupted, unsafe (a member that would
    leave its folder), larger than `limit` bytes, or holds another table.
    """
    for _ in unpacked(path, limit):  # to the end first: a tar reader would not notice a cut after the CSV
        pass
    try:
        with tarfile.open(path, "r:gz", tarinfo=Member) as archive:
            for member in archive:
                if _is_unsafe(member):
                    raise StudyError(f"{path} is unsafe: {member.name!r} is in it; it is not the published archive")
                if Path(member.name).name == CSV and (file := archive.extractfile(member)):
                    return _read_csv(file, path)
    except (tarfile.TarError, *DAMAGE) as error:
        raise StudyError(f"{path} is cut or corrupted ({error}): get it again") from error
    raise StudyError(f"{path} holds no {CSV}: it is not the published archive")


def _is_unsafe(member: tarfile.TarInfo) -> bool:
    """Return whether a member leaves the folder, or is no plain file. (Filters of tarfile need Python 3.11.4.)"""
    name = PurePosixPath(member.name)
    return name.is_absolute() or ".." in name.parts or not (member.isreg() or member.isdir())


def _read_csv(file: IO[bytes], path: Path) -> dict[str, Observations]:
    import pandas as pd

    try:
        types: Any = {"City": "category"} | dict.fromkeys(SIGNAL_COLUMNS, "float64")
        table = pd.read_csv(file, usecols=COLUMNS, dtype=types)
        table["DateTime"] = pd.to_datetime(table["DateTime"], format="%Y-%m-%d %H:%M:%S", utc=True)
    except ValueError as error:  # pandas' parser errors and wrong encodings are ValueErrors
        raise StudyError(f"{path}: {CSV} is not the published table: {str(error).splitlines()[0]}") from error
    times = table["DateTime"].to_numpy("datetime64[s]").astype(np.int64)
    values = table[SIGNAL_COLUMNS].to_numpy()
    city = table["City"].to_numpy(str)
    return {name: Observations(times[city == name], values[city == name]) for name in CITIES}


def make_weather(seed: int, hours: int = HOURS) -> Arrays:
    """`signals` float32 [hours, 20] and `times` int64 [hours]; `hours` makes a shorter series."""
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 1980])))
    west = _west_coast(random, hours + PAD)
    times = START + HOUR * np.arange(hours, dtype=np.int64)
    cities = {}
    for city in CLIMATES:
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
    """Observations float64 [hours, 4], rounded to 0.1 °C, 0.1 hPa, 0.1 m/s and 10°."""
    lag, mean, damping, gusts = CLIMATES[city]
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


def from_files(folder: Path) -> Arrays:
    """Read and resample the published archive."""
    return hourly(read_archive(require(folder, ARCHIVE)))


def from_tfds(root: Path) -> Arrays:
    """Download and read with TensorFlow Datasets and the builder of this project."""
    builder = _builder_class()(data_dir=str(root), file_format="array_record")
    prepare_tfds(builder)
    source = builder.as_data_source("train")
    months = [source[index] for index in range(len(source))]
    return {name: np.concatenate([month[name] for month in months]) for name in ("signals", "times")}


@cache
def _builder_class() -> Any:
    """Return the TFDS builder around the published archive. One example is one month of hours.

    No checksum of the archive is published; the archive's own CRC and the checks of `read_archive` replace it.
    """
    import tensorflow_datasets as tfds

    class WeatherDenmark(tfds.core.GeneratorBasedBuilder):
        """Hourly weather of five Danish cities."""

        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> tfds.core.DatasetInfo:
            times = tfds.features.Tensor(shape=(None,), dtype=np.int64)
            signals = tfds.features.Tensor(shape=(None, 20), dtype=np.float32)
            return tfds.core.DatasetInfo(
                builder=self,
                description=RECIPE.description,
                features=tfds.features.FeaturesDict({"times": times, "signals": signals}),
                homepage="https://github.com/Hvass-Labs/weather-denmark",
                disable_shuffling=True,  # months stay in order
            )

        def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
            return {"train": self._generate_examples(Path(dl_manager.download(ARCHIVE.url)))}

        def _generate_examples(self, path: Path) -> Iterator[tuple[int, Arrays]]:
            arrays = hourly(read_archive(path))
            months = arrays["times"].astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
            for month in np.unique(months):
                yield int(month), {name: array[months == month] for name, array in arrays.items()}

    return WeatherDenmark


RECIPE = Recipe(
    name="weather_denmark",
    description="hourly temperature (°C), pressure (hPa), wind speed (m/s) and wind direction (degrees) of five Danish "
    "cities, missing values interpolated in time",
    citation="Pedersen, M. E. H.: weather-denmark, from the National Climatic Data Center (NCDC). 2018. "
    "https://github.com/Hvass-Labs/weather-denmark",
    licence="non-commercial use only",
    archives=(ARCHIVE,),
    arrays={"signals": Array((HOURS, 20), "float32"), "times": Array((HOURS,), "int64")},
    counted={"hours": "times"},
    from_files=from_files,
    from_tfds=from_tfds,
    standin=make_weather,
    tfds_name="weather_denmark",
    standin_note="invented weather, generated from the seed; same hours and signals as the original, other values",
    columns=tuple(f"{city.lower()}_{signal}" for city in CITIES for signal in SIGNALS),
)
