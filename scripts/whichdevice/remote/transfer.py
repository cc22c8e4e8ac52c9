"""Files to and from a place: only what differs, checksums compared, each whole under its final name or not at all."""

import base64
import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from whichdevice.errors import StudyError
from whichdevice.remote.place import ATOMIC, Place, explained

AT_ONCE = 4
BLOCK = 2**20
ASIDE = ".unfinished"  # folder below a place for files that are not renamed yet
Listing = Mapping[str, Mapping[str, Any]]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Moved:
    """What a transfer did."""

    files: int = 0
    nbytes: int = 0
    kept: int = 0  # the same on both sides before

    def __add__(self, other: "Moved") -> "Moved":
        return Moved(self.files + other.files, self.nbytes + other.nbytes, self.kept + other.kept)

    def __str__(self) -> str:
        return f"{self.files} files, {self.nbytes / 1e6:.1f} MB; {self.kept} were the same already"


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results in the order of the items; the first failure stops what has not begun and is raised."""
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        return list(pool.map(work, items))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def upload(place: Place, files: Mapping[str, Path], listing: Listing | None = None) -> Moved:
    """Send files (name there: file here) that differ, and compare checksums of what arrived.

    Raises StudyError in one line where something stops it; what has arrived stays and is not sent again.
    """
    there = place.listing() if listing is None else listing
    with explained(place.address):
        wanted = [name for name, path in files.items() if not is_same(path, place, name, there.get(name))]
        side_by_side(lambda name: _send(place, name, files[name]), wanted)
    return Moved(len(wanted), sum(files[name].stat().st_size for name in wanted), len(files) - len(wanted))


def download(place: Place, files: Mapping[str, Path], listing: Listing) -> Moved:
    """Bring objects (name there: file here) that differ; each is replaced whole once its checksum agrees.

    Raises StudyError in one line where one is missing or arrives damaged; the file here stays as it was.
    """
    for name in files:
        if name not in listing:
            raise StudyError(f"{place.address}/{name} is missing; publish it again from the machine that made it")
    with explained(place.address):
        wanted = [name for name, path in files.items() if not is_same(path, place, name, listing[name])]
        side_by_side(lambda name: _bring(place, name, files[name], listing[name]), wanted)
    return Moved(len(wanted), sum(int(listing[name]["size"]) for name in wanted), len(files) - len(wanted))


def is_same(path: Path, place: Place, name: str, facts: Mapping[str, Any] | None) -> bool:
    """Whether a file here and an object, as its listing describes it, have the same content."""
    if facts is None or not path.is_file() or int(facts["size"]) != path.stat().st_size:
        return False
    kind, stated = _stated(facts) or ("sha256", None)
    with path.open("rb") as file:
        own = _checksum(file, kind)
    if stated is None:
        with place.fs.open(place.path(name), "rb") as file:
            stated = _checksum(file, kind)
    return own == stated


def _stated(facts: Mapping[str, Any]) -> tuple[str, str] | None:
    """Kind and base64 of the checksum in a listing; None where the file system states none. Google states CRC32C."""
    if facts.get("crc32c"):
        return "crc32c", str(facts["crc32c"])
    if facts.get("md5Hash"):
        return "md5", str(facts["md5Hash"])
    return None


def _checksum(file: BinaryIO, kind: str) -> str:
    if kind == "crc32c":
        import google_crc32c

        digest: Any = google_crc32c.Checksum()
    else:
        digest = hashlib.new(kind, usedforsecurity=False)
    while block := file.read(BLOCK):
        digest.update(block)
    return base64.b64encode(digest.digest()).decode()


def _send(place: Place, name: str, path: Path) -> None:
    aside = name if place.protocol in ATOMIC else f"{ASIDE}/{uuid.uuid4().hex}"
    for file in {aside, name}:
        place.fs.makedirs(place.path(file).rpartition("/")[0], exist_ok=True)
    try:
        place.fs.put_file(str(path), place.path(aside))
        if not is_same(path, place, aside, place.fs.info(place.path(aside))):
            if aside == name and _is_json(place.fs.cat_file(place.path(name))):
                raise StudyError(f"{place.address}/{name}: another machine sent its own at the same time; run again")
            place.fs.rm_file(place.path(aside))
            raise StudyError(f"{place.address}/{name}: arrived damaged and was removed; run again")
        if aside != name:
            place.fs.mv(place.path(aside), place.path(name))
    finally:
        if aside != name and place.fs.exists(place.path(aside)):
            place.fs.rm_file(place.path(aside))


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def _bring(place: Place, name: str, path: Path, facts: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        place.fs.get_file(place.path(name), str(aside))
        if not is_same(aside, place, name, facts):
            raise StudyError(f"{place.address}/{name}: arrived damaged and was not kept; run again")
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
