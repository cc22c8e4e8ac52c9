"""Weather observations are read from the published archive and made hourly."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from beside import beside

from whichdevice.base.errors import StudyError
from whichdevice.models.datasets.weather_denmark import (
    CITIES,
    SECONDS_PER_HOUR,
    SIGNALS,
    Observations,
    hourly,
    read_archive,
)

BESIDE = beside(__file__)

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
    assert set(np.diff(result["times"])) == {SECONDS_PER_HOUR}
    assert (result["times"] % SECONDS_PER_HOUR == 0).all()


HEADER = "City,DateTime,Temp,Pressure,WindSpeed,WindDir\n"


def table(hours: int = 30) -> str:
    rows = [
        f"{city},1980-03-{1 + hour // 24:02d} {hour % 24:02d}:20:00,{hour / 2},{1000 + hour},,{10.0 * hour}\n"
        if hour % 5
        else f"{city},1980-03-{1 + hour // 24:02d} {hour % 24:02d}:20:00,,,{place}.5,\n"
        for place, city in enumerate(CITIES)
        for hour in range(hours)
    ]
    return HEADER + "".join(rows)


def pack(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "weather-denmark.tar.gz"


def test_observations_of_each_city(path: Path) -> None:
    pack(path, {"weather-denmark.pkl": b"never opened", "weather-denmark.csv": table().encode()})
    cities = read_archive(path)
    assert tuple(cities) == CITIES
    odense = cities["Odense"]
    assert odense.times[0] == np.datetime64("1980-03-01T00:20", "s").astype(int)
    np.testing.assert_array_equal(odense.values[0], [np.nan, np.nan, 3.5, np.nan])
    np.testing.assert_array_equal(odense.values[1], [0.5, 1001, np.nan, 10])
    signals = hourly(cities)["signals"]
    assert signals.shape == (29, 20)
    assert not np.isnan(signals).any()


def test_a_bomb_is_refused(path: Path) -> None:
    pack(path, {"weather-denmark.csv": bytes(5_000_000)})
    with pytest.raises(StudyError, match="more than the 1000000 bytes"):
        read_archive(path, limit=1_000_000)


def test_any_cut_is_found_even_after_the_table(path: Path) -> None:
    pack(path, {"weather-denmark.csv": table().encode(), "weather-denmark.pkl": np.random.default_rng(1).bytes(50_000)})
    whole = path.read_bytes()
    for keep in (0, 10, 500, len(whole) - 20_000, len(whole) - 3):
        path.write_bytes(whole[:keep])
        with pytest.raises(StudyError, match=r"weather-denmark\.tar\.gz is cut or corrupted"):
            read_archive(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"City,DateTime\nOdense,1980\n",
        (HEADER + "Odense,yesterday,1,2,3,4\n").encode(),
        (HEADER + "Odense,1980-03-01 11:00:00,warm,2,3,4\n").encode(),
        b"\xff\xfe\x00",
    ],
)
def test_another_table_is_refused(path: Path, content: bytes) -> None:
    pack(path, {"weather-denmark.csv": content})
    with pytest.raises(StudyError, match="is not the published table") as error:
        read_archive(path)
    assert "\n" not in str(error.value)


SCRIPTS = Path(__file__).parents[2] / "scripts"
PROGRAM = BESIDE["program"]


def test_the_builder_and_the_archive_agree(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(SCRIPTS), "HOME": str(tmp_path)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_an_archive_without_the_table_is_refused(path: Path) -> None:
    pack(path, {"other.csv": b"x"})
    with pytest.raises(StudyError, match=r"holds no weather-denmark\.csv"):
        read_archive(path)
