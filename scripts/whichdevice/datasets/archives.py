"""Original archives on disk: found, checked to their end, and compared with the published checksums."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path

from whichdevice.datasets.base import Archive, Recipe
from whichdevice.datasets.info import ArchiveInfo
from whichdevice.errors import StudyError

CHUNK = 2**20
LIMIT = 2**31  # bytes that an archive may unpack to; the largest known needs a tenth
DAMAGE = (OSError, EOFError, zlib.error)  # gzip's ways to say "cut" and "garbled"


def find(folder: Path, archive: Archive) -> Path | None:
    """The archive's path in `folder`, packed or, for .gz of single files, unpacked; None when it is not there."""
    for name in (archive.name, archive.name.removesuffix(".gz")):
        if (folder / name).is_file():
            return folder / name
    return None


def require(folder: Path, archive: Archive) -> Path:
    """The archive's path; raises StudyError that says what to put where."""
    path = find(folder, archive)
    if path is None:
        raise StudyError(f"no {archive.name} in {folder}: put the original archive there ({archive.url})")
    return path


def all_present(folder: Path, recipe: Recipe) -> bool:
    """Whether every archive of the dataset lies in `folder`."""
    return first_missing(folder, recipe) is None


def first_missing(folder: Path, recipe: Recipe) -> Archive | None:
    """The first of the dataset's archives that does not lie in `folder`."""
    return next((archive for archive in recipe.archives if find(folder, archive) is None), None)


def unpacked(path: Path, limit: int = LIMIT) -> Iterator[bytes]:
    """The file's content in chunks, unpacked if its name ends in gz.

    Raises StudyError when it is cut, fails its CRC, or unpacks to more than `limit` bytes.
    """
    total = 0
    try:
        with gzip.open(path) if path.name.endswith("gz") else path.open("rb") as file:
            while chunk := file.read(CHUNK):
                total += len(chunk)
                if total > limit:
                    raise StudyError(f"{path} holds more than the {limit} bytes expected: not the original archive")
                yield chunk
    except DAMAGE as error:
        raise StudyError(f"{path} is cut or corrupted ({_line(error)}): get it again") from error


def examine(path: Path, archive: Archive) -> ArchiveInfo:
    """Compare a file with what was published; raises StudyError as `unpacked` does."""
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror or error}") from error
    original = None if archive.sha256 is None and archive.content_md5 is None else sha256 == archive.sha256
    if not original and archive.content_md5:
        content = hashlib.md5(usedforsecurity=False)
        for chunk in unpacked(path):
            content.update(chunk)
        original = content.hexdigest() == archive.content_md5
    return ArchiveInfo(name=path.name, size=path.stat().st_size, sha256=sha256, original=original)


def _line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
