"""A dataset's source is decided and its arrays are written whole."""

import gzip
import shutil
import socket
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whichdevice.base.errors import StudyError
from whichdevice.models.datasets.base import dataset_names, get_dataset
from whichdevice.models.datasets.store import load_dataset
from whichdevice.study.config.model import Data
from whichdevice.study.prepare import decide_source, decide_sources, prepare_dataset, sound_dataset, standin_notes

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def write_idx(path: Path, shape: tuple[int, ...], value: int = 3) -> None:
    header = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    path.write_bytes(gzip.compress(header + bytes([value]) * int(np.prod(shape)), compresslevel=1))


@pytest.fixture
def invented(tmp_path: Path) -> Path:
    """A folder with IDX files of the right shapes whose content is not MNIST's."""
    folder = tmp_path / "archives" / "mnist"
    folder.mkdir(parents=True)
    for name, shape in zip(NAMES, [(60000, 28, 28), (60000,), (10000, 28, 28), (10000,)], strict=True):
        write_idx(folder / f"{name}.gz", shape)
    return folder.parent


def test_another_content_of_the_right_shape_is_used_and_marked(invented: Path, tmp_path: Path) -> None:
    info = prepare_dataset("mnist", "files", str(invented), 1, tmp_path / "mnist/files")
    assert info.original is False
    assert [archive.original for archive in info.archives] == [False] * 4


@pytest.mark.parametrize("name", NAMES)
def test_a_cut_archive_is_named_and_leaves_nothing(invented: Path, tmp_path: Path, name: str) -> None:
    path = invented / "mnist" / f"{name}.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StudyError, match=f"{name}.gz is cut or corrupted"):
        prepare_dataset("mnist", "files", str(invented), 1, tmp_path / "out/mnist/files")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", [b"To be" * 1000, bytes([255]) * 1115394])
def test_another_text_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "tiny_shakespeare").mkdir()
    (tmp_path / "tiny_shakespeare/input.txt").write_bytes(text)
    with pytest.raises(StudyError, match=r"input\.txt is (cut|corrupted) or another file"):
        prepare_dataset("tiny_shakespeare", "files", str(tmp_path), 1, tmp_path / "tiny_shakespeare/files")


@pytest.mark.parametrize("name", dataset_names())
def test_tfds_without_a_network_fails_at_once(tmp_path: Path, monkeypatch: Any, name: str) -> None:
    for scheme in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(scheme, "http://127.0.0.1:9")  # nobody listens
        monkeypatch.delenv("no_proxy", raising=False)
    start = time.monotonic()
    with pytest.raises(StudyError, match=f"{name}: no network: cannot reach"):
        prepare_dataset(name, "tfds", "archives", 1, tmp_path / name / "tfds")
    assert time.monotonic() - start < 60  # a wait for the network takes minutes
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_found_before_any_work(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 90, 10))
    for source in ("standin", "tfds", "files"):
        with pytest.raises(StudyError, match=r"mnist: no room on disk: .* needs 55 MB"):
            prepare_dataset("mnist", source, str(tmp_path), 1, tmp_path / "mnist" / source)  # type: ignore[arg-type]


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_one_flipped_bit_is_seen_and_the_data_are_prepared_anew(invented: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mnist" / "files"
    made = prepare_dataset("mnist", "files", str(invented), 1, folder)
    flip_a_bit(folder / "train_images.npy")
    assert sound_dataset("mnist", "files", str(invented), folder) == made
    assert load_dataset(folder, verify=True).info == made


@pytest.mark.parametrize(
    ("file", "right", "flipped"),
    [
        ("train_images.npy", b"(60000", b"\xa860000"),
        ("train_images.npy", b"28)", b"28("),
        ("train_images.npy", b"'|u1'", b"'|U1'"),
        ("dataset.json", b'"dtype": "|u1"', b'"dtype": "|i1"'),
        ("dataset.json", b'"checksum": "', b'"checksum": "0'),
    ],
)
def test_a_damaged_description_is_healed_too(file, right, flipped, invented, tmp_path) -> None:
    folder = tmp_path / "mnist" / "files"
    made = prepare_dataset("mnist", "files", str(invented), 1, folder)
    content = (folder / file).read_bytes()
    assert right in content
    (folder / file).write_bytes(content.replace(right, flipped, 1))
    assert sound_dataset("mnist", "files", str(invented), folder) == made
    assert load_dataset(folder, verify=True).info == made


def test_damaged_data_that_cannot_be_prepared_anew_are_one_line(invented: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mnist" / "files"
    prepare_dataset("mnist", "files", str(invented), 1, folder)
    flip_a_bit(folder / "train_images.npy")
    with pytest.raises(StudyError, match=r"train_images.npy differs from its checksum; delete .* \(no train-images"):
        sound_dataset("mnist", "files", str(tmp_path / "nowhere"), folder)


@pytest.fixture
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


def test_a_stand_in_that_nobody_asked_for_is_one_line(tmp_path: Path) -> None:
    put_archives(tmp_path, "mnist")
    put_archives(tmp_path, "fashion_mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    data = Data(dir=str(tmp_path))
    taken = {"mnist": "standin", "fashion_mnist": "files"}
    real = "data.source: tfds downloads the real data"
    missing = f"data.dir: no t10k-labels-idx1-ubyte.gz in {tmp_path}/mnist: mnist is stand-in data; {real}"
    assert standin_notes(data, taken) == [missing]
    two = {**taken, "weather_denmark": "standin"}
    assert standin_notes(Data(), two) == [f"mnist, weather_denmark: stand-in data of the same shapes; {real}"]
    assert standin_notes(Data(dir=data.dir, sources={"mnist": "standin"}), taken) == []  # as asked
    assert standin_notes(Data(dir=data.dir, source="standin"), taken) == []


def test_a_misspelt_dataset_is_named() -> None:
    with pytest.raises(StudyError, match=r"data\.sources: no dataset minst; did you mean mnist"):
        decide_sources(["mnist"], Data(sources={"minst": "files"}))
    with pytest.raises(StudyError, match="no dataset fashion_mnst; did you mean fashion_mnist"):
        decide_sources(["fashion_mnst"], Data())


def test_a_missing_archive_is_named(invented: Path, tmp_path: Path) -> None:
    (invented / "mnist" / f"{NAMES[3]}.gz").unlink()
    with pytest.raises(StudyError, match=r"no t10k-labels-idx1-ubyte\.gz in .*put the original archive there"):
        prepare_dataset("mnist", "files", str(invented), 1, tmp_path / "mnist/files")


def test_files_need_a_folder(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"mnist: source is files, but data\.dir is not set"):
        prepare_dataset("mnist", "files", None, 1, tmp_path / "mnist/files")


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.usefixtures("no_network")
def test_auto_takes_files_first(tmp_path: Path, packed: bool) -> None:
    put_archives(tmp_path, "mnist", packed)
    assert decide_source("mnist", Data(dir=str(tmp_path))) == "files"
