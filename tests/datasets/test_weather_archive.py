"""The weather archive is read without unpacking it to disk and without trusting it."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from whichdevice.datasets.resample import hourly
from whichdevice.datasets.weather_archive import CITIES, read_archive
from whichdevice.errors import StudyError

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


def pack(path: Path, members: dict[str, bytes], link: str | None = None) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        if link:
            member = tarfile.TarInfo("weather-denmark.csv")
            member.type, member.linkname = tarfile.SYMTYPE, link
            archive.addfile(member)
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


def test_nothing_is_written_beside_the_archive(path: Path) -> None:
    pack(path, {"weather-denmark.csv": table().encode()})
    read_archive(path)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["../weather-denmark.csv", "a/../../evil"])
def test_path_traversal_is_refused(path: Path, name: str) -> None:
    pack(path, {name: b"x", "weather-denmark.csv": table().encode()})
    with pytest.raises(StudyError, match="is unsafe"):
        read_archive(path)


@pytest.mark.parametrize("link", ["/etc/passwd", "../../secret"])
def test_links_out_of_the_archive_are_refused(path: Path, link: str) -> None:
    pack(path, {}, link=link)
    with pytest.raises(StudyError, match="is unsafe"):
        read_archive(path)


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


def test_an_archive_without_the_table_is_refused(path: Path) -> None:
    pack(path, {"other.csv": b"x"})
    with pytest.raises(StudyError, match=r"holds no weather-denmark\.csv"):
        read_archive(path)


def test_a_missing_city_is_named(path: Path) -> None:
    lines = [line for line in table().splitlines(keepends=True) if not line.startswith("Odense")]
    pack(path, {"weather-denmark.csv": "".join(lines).encode()})
    with pytest.raises(StudyError, match="weather of Odense: no observation"):
        hourly(read_archive(path))
