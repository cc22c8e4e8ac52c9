"""Get original data: archives on disk, checked to their end, and TensorFlow Datasets, asked only if its hosts answer.

TFDS itself is imported only when its arrays are asked for. It prepares array_record files, which it reads without
TensorFlow; its own checksums guard each download.
"""

import gzip
import hashlib
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from whichdevice.base.errors import StudyError, first_line
from whichdevice.base.files import checksum
from whichdevice.models.datasets.base import Archive, ArchiveInfo, Arrays, Recipe

CHUNK_BYTES = 2**20
LIMIT = 2**31  # bytes that an archive may unpack to; the largest known needs a tenth
DAMAGE = (OSError, EOFError, zlib.error)  # gzip's ways to say "cut" and "garbled"
TIMEOUT = 3.0  # seconds per address, name look-up and redirects included


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
            while chunk := file.read(CHUNK_BYTES):
                total += len(chunk)
                if total > limit:
                    raise StudyError(f"{path} holds more than the {limit} bytes expected: not the original archive")
                yield chunk
    except DAMAGE as error:
        raise StudyError(f"{path} is cut or corrupted ({first_line(error)}): get it again") from error


def examine(path: Path, archive: Archive) -> ArchiveInfo:
    """Compare a file with what was published; raises StudyError as `unpacked` does."""
    try:
        sha256 = checksum(path)
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror or error}") from error
    original = None if archive.sha256 is None and archive.content_md5 is None else sha256 == archive.sha256
    if not original and archive.content_md5:
        content = hashlib.md5(usedforsecurity=False)
        for chunk in unpacked(path):
            content.update(chunk)
        original = content.hexdigest() == archive.content_md5
    return ArchiveInfo(name=path.name, size=path.stat().st_size, sha256=sha256, original=original)


def reachable(url: str, timeout: float = TIMEOUT) -> bool:
    """Return whether the address answers a HEAD request in time, by the proxies that the environment names."""
    answers: list[bool] = []
    # A daemon thread, because name look-up knows no timeout and must not hold up the exit either.
    thread = threading.Thread(target=lambda: answers.append(_head(url, timeout)), daemon=True)
    thread.start()
    thread.join(timeout)
    return answers == [True]


def require_network(recipe: Recipe, folder: str) -> None:
    """Raise StudyError at once when the dataset cannot be downloaded; `folder` is where archives could be put."""
    first_of_host = {urlsplit(archive.url).netloc: archive.url for archive in reversed(recipe.archives)}
    for host, url in first_of_host.items():
        if not reachable(url):
            raise StudyError(
                f"{recipe.name}: no network: cannot reach {host}; use 'data={{source: standin}}' or put the archives "
                f"into {folder} and use 'data={{source: files}}'"
            )


def _head(url: str, timeout: float) -> bool:
    try:
        opener = urllib.request.build_opener()  # urlopen would keep the proxies of its first call
        with opener.open(urllib.request.Request(url, method="HEAD"), timeout=timeout):
            return True
    except urllib.error.HTTPError as error:
        return error.code == 405  # the host is there and only refuses HEAD
    except (OSError, ValueError, HTTPException):
        return False


def tfds_is_prepared(root: Path, tfds_name: str) -> bool:
    """Return whether TFDS already holds the dataset below `root`, found without importing it."""
    return any((root / tfds_name).glob("*/dataset_info.json"))


def prepare_tfds(builder: Any) -> None:
    """Download and prepare with TFDS; raises StudyError when that fails."""
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError
    from tensorflow_datasets.core.download.util import DownloadError

    try:
        builder.download_and_prepare(file_format=tfds.core.FileFormat.ARRAY_RECORD)
    except NonMatchingChecksumError as error:
        raise StudyError(
            f"{builder.name}: the download differs from its published checksum: try again later, or put the archives "
            f"into a folder and use 'data={{source: files, dir: ...}}'"
        ) from error
    except (OSError, DownloadError) as error:  # requests' errors are OSErrors
        why = first_line(error)
        raise StudyError(f"{builder.name}: TensorFlow Datasets could not prepare it: {why}") from error


def open_builder(tfds_name: str, root: Path) -> Any:
    """A registered TFDS dataset below `root`, prepared."""
    import tensorflow_datasets as tfds

    builder = tfds.builder(tfds_name, data_dir=str(root), file_format=tfds.core.FileFormat.ARRAY_RECORD)
    prepare_tfds(builder)
    return builder


def read_images(tfds_name: str, root: Path) -> Arrays:
    """Images uint8 [n, 28, 28] and labels uint8 [n] of the splits train and test, in TFDS's order."""
    builder = open_builder(tfds_name, root)
    arrays: Arrays = {}
    for split in ("train", "test"):
        source = builder.as_data_source(split)
        images = np.empty((len(source), 28, 28), np.uint8)
        labels = np.empty(len(source), np.uint8)
        for index in range(len(source)):
            example = source[index]
            images[index], labels[index] = example["image"][..., 0], example["label"]
        arrays |= {f"{split}_images": images, f"{split}_labels": labels}
    return arrays
