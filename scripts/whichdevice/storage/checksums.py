"""Checksums of files here and of objects there, in whichever form the other side states them."""

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from whichdevice.storage.place import Place

BLOCK = 2**20


class Digest(Protocol):
    """What hashlib's and google_crc32c's objects share."""

    def update(self, data: bytes, /) -> None:
        """Take more bytes in."""

    def digest(self) -> bytes:
        """The checksum so far."""


def stated(facts: dict[str, Any]) -> tuple[str, str] | None:
    """Kind and value of the checksum in an object's listing; None where the file system states none.

    Google gives every object a CRC32C; an object composed of parts has no MD5.
    """
    if facts.get("crc32c"):
        return "crc32c", str(facts["crc32c"])
    if facts.get("md5Hash"):
        return "md5", str(facts["md5Hash"])
    etag = str(facts.get("ETag", "")).strip('"')
    if len(etag) == 32 and all(letter in "0123456789abcdef" for letter in etag):  # S3, of an object sent in one piece
        return "md5", base64.b64encode(bytes.fromhex(etag)).decode()
    return None


def new_digest(kind: str) -> Digest:
    """An empty checksum of a kind: crc32c, md5 or sha256."""
    if kind == "crc32c":
        import google_crc32c

        return google_crc32c.Checksum()
    return hashlib.new(kind, usedforsecurity=False)


def file_checksum(path: Path, kind: str, start: int = 0, length: int | None = None) -> str:
    """Base64 of the checksum of a file, or of `length` bytes of it from `start` on."""
    with path.open("rb") as file:
        file.seek(start)
        return _read_through(file.read, kind, length)


def object_checksum(place: Place, name: str, kind: str) -> str:
    """Base64 of the checksum of an object, read in full: for file systems that state none."""
    with place.fs.open(place.path(name), "rb") as file:
        return _read_through(file.read, kind, None)


def is_same(path: Path, place: Place, name: str, facts: dict[str, Any] | None) -> bool:
    """Whether the object `name`, as its listing describes it, holds what the file does."""
    if facts is None or int(facts["size"]) != path.stat().st_size:
        return False
    if (said := stated(facts)) is not None:
        return file_checksum(path, said[0]) == said[1]
    return object_checksum(place, name, "sha256") == file_checksum(path, "sha256")


def _read_through(read: Callable[[int], bytes], kind: str, length: int | None) -> str:
    digest, left = new_digest(kind), length
    while left is None or left > 0:
        block = read(BLOCK if left is None else min(BLOCK, left))
        if not block:
            break
        digest.update(block)
        left = None if left is None else left - len(block)
    return base64.b64encode(digest.digest()).decode()
