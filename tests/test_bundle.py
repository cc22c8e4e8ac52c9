"""Files that travel as one archive."""

import io
import tarfile
from pathlib import Path

import pytest

from whichdevice.bundle import pack, unpack
from whichdevice.errors import StudyError


def test_what_is_packed_comes_out_again(tmp_path: Path) -> None:
    (tmp_path / "from/deep").mkdir(parents=True)
    (tmp_path / "from/deep/a.npy").write_bytes(b"12")
    (tmp_path / "from/b.npy").write_bytes(b"3")
    pack([tmp_path / "from/deep", tmp_path / "from/b.npy"], tmp_path / "from", tmp_path / "bundle.tar")
    unpack(tmp_path / "bundle.tar", tmp_path / "to")
    assert (tmp_path / "to/deep/a.npy").read_bytes() == b"12"
    assert (tmp_path / "to/b.npy").read_bytes() == b"3"


def test_a_link_is_packed_as_what_it_points_to(tmp_path: Path) -> None:
    folder = tmp_path / "from"
    folder.mkdir()
    (folder / "a").write_bytes(b"1")
    (folder / "b").symlink_to("a")
    (folder / "c").hardlink_to(folder / "a")
    pack([folder / name for name in "abc"], folder, tmp_path / "bundle.tar")
    unpack(tmp_path / "bundle.tar", tmp_path / "to")
    assert all(
        (tmp_path / "to" / name).read_bytes() == b"1" and not (tmp_path / "to" / name).is_symlink() for name in "abc"
    )


def test_the_same_files_give_the_same_archive(tmp_path: Path) -> None:
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "a").write_bytes(b"1")
        pack([tmp_path / place / "a"], tmp_path / place, tmp_path / f"{place}.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_a_run_without_artefacts_has_an_empty_archive(tmp_path: Path) -> None:
    pack([], tmp_path, tmp_path / "bundle.tar")
    unpack(tmp_path / "bundle.tar", tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


def test_a_cut_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1" * 10000)
    pack([tmp_path / "a"], tmp_path, tmp_path / "bundle.tar")
    (tmp_path / "bundle.tar").write_bytes((tmp_path / "bundle.tar").read_bytes()[:3000])
    with pytest.raises(StudyError, match=r"cannot unpack .*bundle.tar"):
        unpack(tmp_path / "bundle.tar", tmp_path / "to")


def test_a_failed_write_leaves_no_half_archive(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="cannot write"):
        pack([tmp_path / "missing"], tmp_path, tmp_path / "bundle.tar")
    assert list(tmp_path.iterdir()) == []


def test_a_sparse_file_never_fills_the_disk(tmp_path: Path) -> None:
    member = tarfile.TarInfo("weights.npy")
    member.size = 512
    member.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.size": str(2**60), "GNU.sparse.map": "0,512"}
    with tarfile.open(tmp_path / "bundle.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(bytes(512)))
    with pytest.raises(StudyError, match=r"say that they hold 1,152,921,504,606,846,976"):
        unpack(tmp_path / "bundle.tar", tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


@pytest.mark.parametrize("size", [2**33, 2**50, -1])
def test_a_long_name_never_fills_the_memory(size: int, tmp_path: Path) -> None:
    member = tarfile.TarInfo("a")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, size
    (tmp_path / "bundle.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with pytest.raises(StudyError, match=r"cannot unpack .*a header says that it has"):
        unpack(tmp_path / "bundle.tar", tmp_path / "to")


@pytest.mark.parametrize("name", ["a", ""])
@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
@pytest.mark.parametrize("target", ["gone", "a", "../a"])
def test_a_link_or_a_device_is_refused(name: str, kind: bytes, target: str, tmp_path: Path) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    with tarfile.open(tmp_path / "bundle.tar", "w") as archive:
        archive.addfile(member)
    with pytest.raises(StudyError, match=r"cannot unpack .*'a?' in it is neither file nor folder"):
        unpack(tmp_path / "bundle.tar", tmp_path / "to")
