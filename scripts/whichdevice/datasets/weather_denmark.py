"""Hourly weather of five Danish cities, 1980 to 2018, from Hvass-Labs' archive of NCDC observations.

`resample` says how irregular observations with gaps become hourly signals. The archive holds clearly wrong values too
(temperatures near 50 °C, for instance); they are kept, as in the published recipe.
"""

from pathlib import Path

from whichdevice.datasets.archives import require
from whichdevice.datasets.base import Archive, Array, Arrays, Recipe
from whichdevice.datasets.resample import SIGNALS, hourly
from whichdevice.datasets.standin.weather import make_weather
from whichdevice.datasets.tfds_source import prepare
from whichdevice.datasets.weather_archive import CITIES, read_archive

HOURS = 333109  # 1980-03-01 11:00 to 2018-03-01 23:00 UTC
ARCHIVE = Archive(
    "weather-denmark.tar.gz",
    "https://github.com/Hvass-Labs/weather-denmark/raw/master/weather-denmark.tar.gz",
)


def from_files(folder: Path) -> Arrays:
    """Read and resample the published archive."""
    return hourly(read_archive(require(folder, ARCHIVE)))


def from_tfds(root: Path) -> Arrays:
    """Download and read with TensorFlow Datasets and the builder of this project."""
    from whichdevice.datasets.builders.weather_denmark import WeatherDenmark, read_weather

    builder = WeatherDenmark(data_dir=str(root), file_format="array_record")
    prepare(builder)
    return read_weather(builder)


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
