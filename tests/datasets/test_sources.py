"""Where a dataset comes from: what the config names, else archives on this disk, else the stand-in."""

import gzip
import socket
from pathlib import Path

import pytest

from whichdevice.config.model import Data
from whichdevice.datasets.registry import dataset_names, get_dataset
from whichdevice.datasets.sources import check_folder, decide_source, decide_sources, standin_notes
from whichdevice.errors import StudyError


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    for name in ("socket", "getaddrinfo", "create_connection"):
        monkeypatch.setattr(socket, name, opened)


def put_archives(root: Path, name: str, packed: bool = True) -> None:
    (root / name).mkdir(parents=True)
    for archive in get_dataset(name).archives:
        file = archive.name if packed else archive.name.removesuffix(".gz")
        (root / name / file).write_bytes(gzip.compress(b""))


def test_a_named_source_wins(tmp_path: Path) -> None:
    assert decide_source("mnist", Data(source="tfds")) == "tfds"
    assert decide_source("mnist", Data(source="tfds", sources={"mnist": "files"})) == "files"
    assert decide_source("mnist", Data(sources={"mnist": "standin"})) == "standin"


@pytest.mark.parametrize("packed", [True, False])
def test_auto_takes_files_first(tmp_path: Path, packed: bool) -> None:
    put_archives(tmp_path, "mnist", packed)
    assert decide_source("mnist", Data(dir=str(tmp_path))) == "files"


def test_auto_does_not_take_an_incomplete_folder(tmp_path: Path) -> None:
    put_archives(tmp_path, "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert decide_source("mnist", Data(dir=str(tmp_path))) == "standin"


def test_a_folder_of_archives_that_is_none_is_an_error(tmp_path: Path) -> None:
    data = Data(dir=str(tmp_path / "archves"))
    with pytest.raises(StudyError, match=r"data\.dir: .*archves is no folder; name the one that holds <dataset>/"):
        check_folder(data)
    check_folder(Data(dir=str(tmp_path)))
    check_folder(Data(dir=data.dir, source="standin"))


def test_a_stand_in_that_nobody_asked_for_is_one_line(tmp_path: Path) -> None:
    put_archives(tmp_path, "mnist")
    put_archives(tmp_path, "fashion_mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    data = Data(dir=str(tmp_path))
    taken = {"mnist": "standin", "fashion_mnist": "files"}
    real = "data.source: tfds downloads the real data"
    missing = f"data.dir: no t10k-labels-idx1-ubyte.gz in {tmp_path}/mnist: mnist is stand-in data; {real}"
    assert standin_notes(data, taken) == [missing]
    assert standin_notes(Data(), taken) == [f"mnist: stand-in data of the same shapes; {real}"]
    assert standin_notes(Data(dir=data.dir, sources={"mnist": "standin"}), taken) == []  # as asked
    assert standin_notes(Data(dir=data.dir, source="standin"), taken) == []


def test_auto_without_archives_is_the_standin_and_asks_no_network() -> None:
    assert decide_sources(dataset_names(), Data()) == dict.fromkeys(dataset_names(), "standin")


def test_a_misspelt_dataset_is_named() -> None:
    with pytest.raises(StudyError, match=r"data\.sources: no dataset 'minst'; nearest: mnist"):
        decide_sources(["mnist"], Data(sources={"minst": "files"}))
    with pytest.raises(StudyError, match="unknown dataset 'fashion_mnst': did you mean fashion_mnist"):
        decide_sources(["fashion_mnst"], Data())
