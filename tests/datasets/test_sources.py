"""Where a dataset comes from: the config's word, else the first source at hand."""

import gzip
import threading
from pathlib import Path
from typing import Any

import pytest

from whichdevice.config.model import Data
from whichdevice.datasets import reachable, sources
from whichdevice.datasets.registry import dataset_names, get_dataset
from whichdevice.datasets.sources import check_folder, decide_source, decide_sources, not_taken
from whichdevice.errors import StudyError


@pytest.fixture
def no_network(monkeypatch: Any) -> None:
    monkeypatch.setattr(reachable, "reachable", lambda *_: False)


@pytest.fixture
def network(monkeypatch: Any) -> None:
    monkeypatch.setattr(reachable, "reachable", lambda *_: True)


def put_archives(root: Path, name: str, packed: bool = True) -> None:
    (root / name).mkdir(parents=True)
    for archive in get_dataset(name).archives:
        file = archive.name if packed else archive.name.removesuffix(".gz")
        (root / name / file).write_bytes(gzip.compress(b""))


def test_a_named_source_wins(tmp_path: Path, no_network: None) -> None:
    assert decide_source("mnist", Data(source="tfds"), tmp_path) == "tfds"
    assert decide_source("mnist", Data(source="tfds", sources={"mnist": "files"}), tmp_path) == "files"
    assert decide_source("mnist", Data(sources={"mnist": "standin"}), tmp_path) == "standin"


@pytest.mark.parametrize("packed", [True, False])
def test_auto_takes_files_first(tmp_path: Path, network: None, packed: bool) -> None:
    put_archives(tmp_path, "mnist", packed)
    assert decide_source("mnist", Data(dir=str(tmp_path)), tmp_path / "datasets") == "files"


def test_auto_does_not_take_an_incomplete_folder(tmp_path: Path, no_network: None) -> None:
    put_archives(tmp_path, "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert decide_source("mnist", Data(dir=str(tmp_path)), tmp_path / "datasets") == "standin"


def test_a_folder_of_archives_that_is_none_is_an_error(tmp_path: Path) -> None:
    data = Data(dir=str(tmp_path / "archves"))
    with pytest.raises(StudyError, match=r"data\.dir: .*archves is no folder; name the one that holds <dataset>/"):
        check_folder(data)
    check_folder(Data(dir=str(tmp_path)))
    check_folder(Data(dir=data.dir, source="standin"))


def test_what_is_taken_instead_of_archives_is_said(tmp_path: Path) -> None:
    put_archives(tmp_path, "mnist")
    put_archives(tmp_path, "fashion_mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    data = Data(dir=str(tmp_path))
    taken = {"mnist": "standin", "fashion_mnist": "files"}
    line = f"data.dir: no t10k-labels-idx1-ubyte.gz in {tmp_path}/mnist: mnist comes from standin instead"
    assert not_taken(data, taken) == [line]
    assert not_taken(Data(dir=data.dir, sources={"mnist": "standin"}), taken) == []  # as asked
    assert not_taken(Data(dir=data.dir, source="standin"), taken) == not_taken(Data(), taken) == []


def test_auto_takes_tfds_when_it_can_be_reached(tmp_path: Path, network: None) -> None:
    assert decide_source("mnist", Data(), tmp_path) == "tfds"


def test_auto_takes_tfds_when_it_is_prepared(tmp_path: Path, no_network: None) -> None:
    (tmp_path / ".tfds/mnist/3.0.1").mkdir(parents=True)
    (tmp_path / ".tfds/mnist/3.0.1/dataset_info.json").write_text("{}", encoding="utf-8")
    assert decide_source("mnist", Data(), tmp_path) == "tfds"


def test_auto_ends_at_the_standin(tmp_path: Path, no_network: None) -> None:
    assert decide_sources(dataset_names(), Data(), tmp_path) == dict.fromkeys(dataset_names(), "standin")


def test_datasets_are_looked_up_side_by_side(tmp_path: Path, monkeypatch: Any) -> None:
    together = threading.Barrier(len(dataset_names()))

    def looked_up(*_: Any) -> None:
        together.wait(30)  # one after the other they would wait in vain

    monkeypatch.setattr(sources, "unreachable_host", looked_up)
    decide_sources(dataset_names(), Data(), tmp_path)
    assert not together.broken


def test_a_misspelt_dataset_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"data\.sources: no dataset 'minst'; nearest: mnist"):
        decide_sources(["mnist"], Data(sources={"minst": "files"}), tmp_path)
    with pytest.raises(StudyError, match="unknown dataset 'fashion_mnst': did you mean fashion_mnist"):
        decide_sources(["fashion_mnst"], Data(), tmp_path)


def test_no_datasets_need_no_look_up(tmp_path: Path) -> None:
    assert decide_sources([], Data(), tmp_path) == {}
