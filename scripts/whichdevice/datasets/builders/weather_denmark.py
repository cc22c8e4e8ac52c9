"""TFDS builder around the published archive weather-denmark.tar.gz. One example is one month of hours.

No checksum of the archive is published, so TFDS has none to compare with; the archive's own CRC and the checks of
`weather_archive` stand in for it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from whichdevice.datasets.base import Arrays
from whichdevice.datasets.resample import hourly
from whichdevice.datasets.weather_archive import read_archive

URL = "https://github.com/Hvass-Labs/weather-denmark/raw/master/weather-denmark.tar.gz"


class WeatherDenmark(tfds.core.GeneratorBasedBuilder):
    """Hourly weather of five Danish cities."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="Hourly weather of five Danish cities, 1980 to 2018, missing values interpolated in time.",
            features=tfds.features.FeaturesDict(
                {
                    "times": tfds.features.Tensor(shape=(None,), dtype=np.int64),
                    "signals": tfds.features.Tensor(shape=(None, 20), dtype=np.float32),
                }
            ),
            homepage="https://github.com/Hvass-Labs/weather-denmark",
            disable_shuffling=True,  # months stay in order
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples(Path(dl_manager.download(URL)))}

    def _generate_examples(self, path: Path) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        arrays = hourly(read_archive(path))
        months = arrays["times"].astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
        for month in np.unique(months):
            yield int(month), {name: array[months == month] for name, array in arrays.items()}


def read_weather(builder: WeatherDenmark) -> Arrays:
    """The prepared months put together again."""
    source = builder.as_data_source("train")
    months = [source[index] for index in range(len(source))]
    return {name: np.concatenate([month[name] for month in months]) for name in ("signals", "times")}
