"""Nothing comes into a study's records that is not a whole record of it."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from whichdevice.cloud.bring_back import Home
from whichdevice.errors import StudyError


def archive(*entries: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    """A gzipped tar."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as packed:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                packed.addfile(entry)
                continue
            info = tarfile.TarInfo(entry[0])
            info.size = len(entry[1])
            packed.addfile(info, io.BytesIO(entry[1]))
    return content.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    """A symbolic link."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def home(folder: Path) -> Home:
    """Where records go."""
    return Home(folder / "results" / "rented", "machine", {"tpu"}, {})


@pytest.mark.parametrize(
    "entry",
    [
        ("../evil", b"x"),
        ("runs/../../evil", b"x"),
        ("/tmp/evil", b"x"),
        ("config.yaml", b"x"),
        link("runs/tpu", "/etc"),
    ],
    ids=["above", "above from inside", "absolute", "not a run", "link"],
)
def test_an_archive_writes_nowhere_else(tmp_path: Path, entry: tuple[str, bytes] | tarfile.TarInfo) -> None:
    with pytest.raises(StudyError, match="which is no file of a run"):
        home(tmp_path).bring(lambda take: take(archive(entry)))
    assert [path for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()] == []


@pytest.mark.parametrize("place", [0, 3, 12, 60])
def test_a_flipped_bit_on_the_way_takes_nothing(place: int, tmp_path: Path) -> None:
    content = bytearray(archive((".checksums", bytes(range(200))), ("runs/a", bytes(range(200)))))
    content[place] ^= 16
    with pytest.raises(StudyError, match=r"came back cut or garbled .*; nothing of them was taken"):
        home(tmp_path).bring(lambda take: take(bytes(content)))


def test_a_file_that_would_fill_the_disk_is_refused(tmp_path: Path) -> None:
    member = tarfile.TarInfo("runs/a")
    member.size = 2**40
    content = gzip.compress(member.tobuf() + bytes(1024))
    with pytest.raises(StudyError, match=r"more than 68,719,476,736 bytes"):
        home(tmp_path).bring(lambda take: take(content))


def test_a_run_of_another_device_or_name_is_refused(tmp_path: Path) -> None:
    odd = archive(("runs/cpu/matmul/jax-float32-b8/r1/record.json", b"{}"), ("runs/tpu/x/record.json", b"{}"))
    brought = home(tmp_path).bring(lambda take: take(odd))
    assert [line.split(":")[0] for line in brought.refused] == ["cpu/matmul/jax-float32-b8/r1", "not a run"]
    assert not (tmp_path / "results/rented/runs").exists()


def test_a_file_that_changed_on_the_way_is_refused(tmp_path: Path) -> None:
    path = "runs/tpu/matmul/jax-float32-b8/r1/record.json"
    sums = f"{'0' * 64}  {path}\n".encode()
    brought = home(tmp_path).bring(lambda take: take(archive((".checksums", sums), (path, b"{}"))))
    assert brought.refused == [f"{path} is not what it was on the machine"]


def test_nothing_measured_is_nothing_brought(tmp_path: Path) -> None:
    where = home(tmp_path)
    brought = where.bring(lambda take: None)
    assert next(where.lines(brought)).startswith("0 records brought back")
