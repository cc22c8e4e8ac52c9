"""The TFDS builder gives the same arrays as the archive itself, without TensorFlow."""

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[3] / "scripts"
PROGRAM = """
import io, sys, tarfile
from pathlib import Path
from unittest import mock
import numpy as np
import tensorflow_datasets as tfds
from whichdevice.datasets import weather_denmark
from whichdevice.datasets.weather_archive import CITIES

folder = Path(sys.argv[1])
rows = [
    f"{city},1980-{month:02d}-{day:02d} {hour:02d}:20:00,{hour / 2},{1000 + day},{month},{10 * hour}"
    for city in CITIES for month in (3, 4) for day in range(1, 29) for hour in range(24)
]
content = "\\n".join(["City,DateTime,Temp,Pressure,WindSpeed,WindDir", *rows]).encode()
with tarfile.open(folder / "weather-denmark.tar.gz", "w:gz") as archive:
    member = tarfile.TarInfo("weather-denmark.csv")
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
expected = weather_denmark.from_files(folder)
fetched = str(folder / "weather-denmark.tar.gz")
with mock.patch.object(tfds.download.DownloadManager, "download", lambda self, url: fetched):
    arrays = weather_denmark.from_tfds(folder / "tfds")
for name in expected:
    np.testing.assert_array_equal(arrays[name], expected[name])
    assert arrays[name].dtype == expected[name].dtype
assert (folder / "tfds/weather_denmark").is_dir()
assert "tensorflow" not in sys.modules
"""


def test_the_builder_and_the_archive_agree(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(SCRIPTS), "HOME": str(tmp_path)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
