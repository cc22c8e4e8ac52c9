"""A prepared dataset is whole or absent, and says so when it is damaged."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whichdevice.base.errors import StudyError
from whichdevice.models.datasets import store
from whichdevice.models.datasets.base import DatasetFacts
from whichdevice.models.datasets.store import load_dataset, write_dataset

FACTS = DatasetFacts(name="tiny", source="standin", code="0", seed=1, description="d", citation="c", licence="l")


def arrays(offset: int = 0) -> dict[str, np.ndarray]:
    return {"images": np.arange(24, dtype=np.uint8).reshape(2, 3, 4) + offset, "times": np.arange(5, dtype=np.int64)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tiny" / "standin"


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.parent.iterdir() if path.name not in (folder.name, f".{folder.name}.lock")]


def test_round_trip_is_memory_mapped_and_complete(folder: Path) -> None:
    info = write_dataset(folder, arrays(), FACTS)
    loaded = load_dataset(folder, verify=True)
    assert loaded.info == info
    for name, array in arrays().items():
        assert isinstance(loaded.arrays[name], np.memmap)
        np.testing.assert_array_equal(loaded.arrays[name], array)
    assert sorted(path.name for path in folder.iterdir()) == ["dataset.json", "images.npy", "times.npy"]
    assert leftovers(folder) == []


def test_a_replacement_that_was_killed_half_way_is_undone(folder: Path) -> None:
    write_dataset(folder, arrays(), FACTS)
    folder.rename(folder.with_name(".standin.old"))
    with store._only_writer(folder):
        np.testing.assert_array_equal(load_dataset(folder, verify=True).arrays["images"], arrays()["images"])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_failed_write_leaves_the_old_data_as_it_was(folder: Path, monkeypatch: Any, code: int) -> None:
    write_dataset(folder, arrays(), FACTS)

    def fail(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(store.os, "fsync", fail)
    with pytest.raises(StudyError, match="no room on disk" if code != errno.EIO else "cannot write"):
        write_dataset(folder, arrays(1), FACTS)
    np.testing.assert_array_equal(load_dataset(folder, verify=True).arrays["images"], arrays()["images"])
    assert leftovers(folder) == []


@pytest.mark.parametrize("keep", [0, 5, 130, -1])
def test_a_cut_array_is_named(folder: Path, keep: int) -> None:
    write_dataset(folder, arrays(), FACTS)
    path = folder / "images.npy"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(StudyError, match=r"images\.npy.*delete .* and run again"):
        load_dataset(folder)


def test_a_pickled_array_is_never_opened(folder: Path) -> None:
    write_dataset(folder, arrays(), FACTS)
    np.save(folder / "times.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(StudyError, match=r"times\.npy"):
        load_dataset(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"name": "tiny"})])
def test_garbled_info_is_an_error(folder: Path, text: str) -> None:
    write_dataset(folder, arrays(), FACTS)
    (folder / "dataset.json").write_text(text, encoding="utf-8")
    with pytest.raises(StudyError, match=r"dataset\.json is garbled"):
        load_dataset(folder)
