"""Files to a place: only what is not there yet, side by side, each whole under its name or not at all.

A large file goes up in parts, where the file system can join them: a cut upload goes on after the parts that arrived,
from any machine, as their names say what they are of. Other file systems get a file under another name that is then
renamed.
"""

import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from whichdevice.errors import StudyError
from whichdevice.storage.checksums import file_checksum, is_same, stated
from whichdevice.storage.failures import explained
from whichdevice.storage.place import Place
from whichdevice.storage.side_by_side import side_by_side

PART = 32 * 2**20  # bytes; a file of more than this goes up in parts
MOST_PARTS = 32  # that Google joins in one request
UNFINISHED = ".parts"  # folder of parts, and of files not yet renamed, below a place


@dataclass(frozen=True)
class Sent:
    """What an upload did."""

    files: int = 0  # sent
    nbytes: int = 0
    kept: int = 0  # there already, with equal checksum
    kept_bytes: int = 0  # parts of an earlier, cut upload
    newer: int = 0  # records that are later there, and were not replaced
    unknown: int = 0  # records that are there and not here

    def __str__(self) -> str:
        resumed = f" ({self.kept_bytes / 1e6:.0f} MB of them had arrived before)" if self.kept_bytes else ""
        line = f"{self.files} files, {self.nbytes / 1e6:.1f} MB{resumed}; {self.kept} were there already"
        if self.unknown:
            line += f"; {self.unknown} more records there are not here, so in no table or figure sent: merge them"
        if not self.newer:
            return line
        return (
            f"{line}; not replaced there: {self.newer} newer record{'s' if self.newer > 1 else ''}, "
            "nor tables, figures, report, models and config; measure those runs here again, or publish as "
            "another study (study=<name>)"
        )


def upload(place: Place, *stages: Mapping[str, Path]) -> Sent:
    """Bring files (name there: file here) to a place, each stage when all before it have arrived.

    Raises StudyError in one line where something stops it; what has arrived stays and is not sent again.
    """
    done: list[Sent] = []
    with explained(place.address):
        there = place.listing()
        for files in stages:
            large = [name for name in files if files[name].stat().st_size > PART]
            small = [name for name in files if name not in large]
            brought = dict(zip(small, side_by_side(partial(_bring, place, files, there), small), strict=True))
            brought |= {name: _bring(place, files, there, name) for name in large}
            _check(place, {name: files[name] for name, sent in brought.items() if sent.files})
            done += brought.values()
    counted = [(each.files, each.nbytes, each.kept, each.kept_bytes) for each in done]
    return Sent(*(sum(values) for values in zip(*counted, strict=True)))


def _bring(place: Place, files: Mapping[str, Path], there: Mapping[str, dict[str, Any]], name: str) -> Sent:
    path = files[name]
    if is_same(path, place, name, there.get(name)):
        return Sent(kept=1)
    size = path.stat().st_size
    kept_bytes = 0
    if size > PART and hasattr(place.fs, "merge"):
        kept_bytes = _in_parts(place, name, path, there)
    elif place.is_atomic:
        place.fs.put_file(str(path), place.path(name))
    else:
        _renamed(place, name, path)
    return Sent(1, size, kept_bytes=kept_bytes)


def _renamed(place: Place, name: str, path: Path) -> None:
    aside = f"{UNFINISHED}/{uuid.uuid4().hex}"
    target = place.path(name)
    place.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
    place.fs.makedirs(place.path(UNFINISHED), exist_ok=True)
    try:
        place.fs.put_file(str(path), place.path(aside))
        place.fs.mv(place.path(aside), target)
    finally:
        if place.fs.exists(place.path(aside)):
            place.fs.rm_file(place.path(aside))


def _in_parts(place: Place, name: str, path: Path, there: Mapping[str, dict[str, Any]]) -> int:
    """Send the parts that are not there and join them; the bytes that had arrived before."""
    size = path.stat().st_size
    length = max(PART, -(-size // MOST_PARTS))
    folder = f"{UNFINISHED}/{file_checksum(path, 'sha256').replace('/', '_').replace('+', '-')}"
    names = [f"{folder}/{length}-{number:03d}" for number in range(-(-size // length))]

    def send(number: int) -> int:
        facts, start = there.get(names[number]), number * length
        said = stated(facts) if facts is not None else None
        span = min(length, size - start)
        if facts and said and int(facts["size"]) == span and file_checksum(path, said[0], start, span) == said[1]:
            return span
        with path.open("rb") as file:
            file.seek(start)
            place.fs.pipe_file(place.path(names[number]), file.read(span), chunksize=PART // 4)
        return 0

    arrived = sum(side_by_side(send, range(len(names))))
    with suppress(FileNotFoundError):  # another machine joined the same parts; what lies there is compared anyway
        place.fs.merge(place.path(name), [place.path(part) for part in names])
        place.fs.rm([place.path(part) for part in names])
    return arrived


def _check(place: Place, sent: Mapping[str, Path]) -> None:
    """Compare what arrived; what differs is an error, and taken away again if it is no whole record of another."""
    arrived = place.listing() if sent else {}
    for name, path in sent.items():
        if is_same(path, place, name, arrived.get(name)):
            continue
        if name in arrived and name.endswith(".json") and is_json(place.fs.cat_file(place.path(name))):
            raise StudyError(f"{place.told(name)}: another machine sent its own at the same time; run again")
        if name in arrived:
            place.fs.rm_file(place.path(name))
        raise StudyError(f"{place.told(name)}: arrived damaged and was taken away again; run again")


def is_json(content: bytes) -> bool:
    """Whether it is JSON to its end, whatever else it may be."""
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def unfinished(place: Place) -> list[str]:
    """Parts of uploads that were cut and never finished."""
    return [name for name in place.listing() if UNFINISHED in name.split("/")]
