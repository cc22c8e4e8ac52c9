"""A prepared dataset goes to the bucket once and comes back verified on another machine."""

import json
from pathlib import Path

import numpy as np
import pytest

from whichdevice.base.errors import StudyError
from whichdevice.models.datasets.base import DatasetFacts
from whichdevice.models.datasets.store import load_dataset, write_dataset
from whichdevice.study.remote.publish import fetch_dataset, upload_dataset

FACTS = DatasetFacts(name="tiny", source="standin", code="c0de", seed=1, description="d", citation="c", licence="l")
MADE_OF = {"code": "c0de"}
THERE = "datasets/tiny/standin"


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A prepared dataset."""
    folder = tmp_path / "one" / "tiny" / "standin"
    write_dataset(folder, {"images": np.arange(1000).reshape(10, 100), "labels": np.arange(10)}, FACTS)
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Where another machine would have it."""
    return tmp_path / "two" / "tiny" / "standin"


def test_it_goes_up_once_and_comes_back_equal(place, prepared, elsewhere):
    assert upload_dataset(prepared, place, "tiny", "standin").files == 3
    assert upload_dataset(prepared, place, "tiny", "standin").files == 0
    info = fetch_dataset(place, "tiny", "standin", elsewhere, MADE_OF)
    assert info == load_dataset(prepared).info
    assert {path.name: path.read_bytes() for path in elsewhere.iterdir()} == {
        path.name: path.read_bytes() for path in prepared.iterdir()
    }
    assert [path.name for path in elsewhere.parent.iterdir() if not path.name.endswith(".lock")] == ["standin"]


def test_what_is_here_already_is_not_fetched_again(bucket, prepared, elsewhere, monkeypatch):
    upload_dataset(prepared, bucket, "tiny", "standin")
    fetch_dataset(bucket, "tiny", "standin", elsewhere, MADE_OF)
    before = {path: path.stat().st_mtime_ns for path in elsewhere.iterdir()}
    assert fetch_dataset(bucket, "tiny", "standin", elsewhere, MADE_OF)
    assert {path: path.stat().st_mtime_ns for path in elsewhere.iterdir()} == before
    (elsewhere / "labels.npy").write_bytes(b"damaged")
    fetch_dataset(bucket, "tiny", "standin", elsewhere, MADE_OF)
    assert load_dataset(elsewhere, verify=True)


def test_what_is_not_there_or_made_otherwise_is_left_to_be_prepared(place, prepared, elsewhere):
    assert fetch_dataset(place, "tiny", "standin", elsewhere, MADE_OF) is None
    upload_dataset(prepared, place, "tiny", "standin")
    assert fetch_dataset(place, "tiny", "standin", elsewhere, {"code": "0ther"}) is None
    assert fetch_dataset(place, "tiny", "files", elsewhere, MADE_OF) is None
    assert not elsewhere.exists()


def test_another_content_than_its_checksums_say_is_refused_and_the_old_one_stays(place, prepared, elsewhere):
    upload_dataset(prepared, place, "tiny", "standin")
    write_dataset(elsewhere, {"images": np.zeros((10, 100), int), "labels": np.zeros(10, int)}, FACTS)
    before = load_dataset(elsewhere, verify=True).info
    content = (prepared / "labels.npy").read_bytes()
    place.fs.pipe_file(place.path(f"{THERE}/labels.npy"), content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(StudyError, match="its content differs from its checksums"):
        fetch_dataset(place, "tiny", "standin", elsewhere, MADE_OF)
    assert load_dataset(elsewhere, verify=True).info == before


def test_a_description_cannot_name_a_file_outside_its_folder(place, prepared, elsewhere):
    info = json.loads((prepared / "dataset.json").read_text())
    info["arrays"]["../../evil"] = info["arrays"]["labels"]
    place.fs.makedirs(place.path(THERE), exist_ok=True)
    place.fs.pipe_file(place.path(f"{THERE}/dataset.json"), json.dumps(info).encode())
    with pytest.raises(StudyError, match="which is no file name"):
        fetch_dataset(place, "tiny", "standin", elsewhere, MADE_OF)
