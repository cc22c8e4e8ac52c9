"""Hourly weather of five Danish cities, 1980 to 2018, from Hvass-Labs' archive of NCDC observations, and its stand-in.

The archive holds clearly wrong values too (temperatures near 50 °C, for instance); they are kept, as in the published
recipe. Only the CSV of observations is read; the archive's pickle is never opened.
"""

import tarfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.models.datasets.base import Archive, Array, Arrays, Recipe
from whichdevice.models.datasets.download import DAMAGE, LIMIT, prepare_tfds, require, unpacked

SECONDS_PER_HOUR = 3600
SIGNALS = ("temperature", "pressure", "wind_speed", "wind_direction")  # °C, hPa, m/s, degrees
CITIES = ("Aalborg", "Aarhus", "Esbjerg", "Odense", "Roskilde")
CSV = "weather-denmark.csv"
SIGNAL_COLUMNS = ["Temp", "Pressure", "WindSpeed", "WindDir"]  # in the order of resample.SIGNALS
CSV_COLUMNS = ["City", "DateTime", *SIGNAL_COLUMNS]
MEANS, SPREADS = (8.4, 1012.5, 5.0, 240.0), (4.0, 9.5, 2.5, 60.0)  # of the stand-in's signals
FIRST_HOUR = 320756400  # 1980-03-01 11:00 UTC
HOURS = 333109
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
    start = max(-(-observations.times[0] // SECONDS_PER_HOUR) for observations in known.values()) * SECONDS_PER_HOUR
    end = min(observations.times[-1] // SECONDS_PER_HOUR for observations in known.values()) * SECONDS_PER_HOUR
    if end < start:
        raise StudyError(f"weather: {', '.join(cities)} have no hour in common")
    times = np.arange(start, end + 1, SECONDS_PER_HOUR, dtype=np.int64)
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


def read_archive(path: Path, limit: int = LIMIT) -> dict[str, Observations]:
    """Observations of each city, in the order of CITIES.

    Nothing is unpacked to disk. Raises StudyError when the archive is cut, corrupted, larger than `limit` bytes, or
    holds another table.
    """
    for _ in unpacked(path, limit):  # to the end first: a tar reader would not notice a cut after the CSV
        pass
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if member.isreg() and Path(member.name).name == CSV and (file := archive.extractfile(member)):
                    return _read_csv(file, path)
    except (tarfile.TarError, *DAMAGE) as error:
        raise StudyError(f"{path} is cut or corrupted ({error}): get it again") from error
    raise StudyError(f"{path} holds no {CSV}: it is not the published archive")


def _read_csv(file: IO[bytes], path: Path) -> dict[str, Observations]:
    import pandas as pd

    try:
        types: Any = {"City": "category"} | dict.fromkeys(SIGNAL_COLUMNS, "float64")
        table = pd.read_csv(file, usecols=CSV_COLUMNS, dtype=types)
        table["DateTime"] = pd.to_datetime(table["DateTime"], format="%Y-%m-%d %H:%M:%S", utc=True)
    except ValueError as error:  # pandas' parser errors and wrong encodings are ValueErrors
        raise StudyError(f"{path}: {CSV} is not the published table: {str(error).splitlines()[0]}") from error
    times = table["DateTime"].to_numpy("datetime64[s]").astype(np.int64)
    values = table[SIGNAL_COLUMNS].to_numpy()
    city = table["City"].to_numpy(str)
    return {name: Observations(times[city == name], values[city == name]) for name in CITIES}


def make_weather(seed: int, hours: int = HOURS) -> Arrays:
    """Generate `signals` float32 [hours, 20] and `times` int64 [hours]: the course of day and year, and slow noise."""
    from scipy.signal import lfilter  # type: ignore[import-untyped]  # a second to import, needed only here

    random = np.random.default_rng([seed, 1980])
    times = FIRST_HOUR + SECONDS_PER_HOUR * np.arange(hours, dtype=np.int64)
    shape = (hours, len(CITIES), len(SIGNALS))
    common, local = random.random((hours, 1, len(SIGNALS))) - 0.5, random.random(shape) - 0.5
    noise = lfilter([1.0], [1.0, -(1 - 1 / 48)], common + 0.3 * local, axis=0)
    year, day = (-np.cos(2 * np.pi * times / seconds)[:, None, None] for seconds in (365.2425 * 86400, 86400))
    signals = np.array(MEANS) + np.array(SPREADS) * (noise / noise.std() + [1.5, 0, -0.2, 0] * (year + 0.3 * day))
    signals[..., 2], signals[..., 3] = np.abs(signals[..., 2]), signals[..., 3] % 360
    return {"signals": signals.reshape(hours, -1).astype(np.float32), "times": times}


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
