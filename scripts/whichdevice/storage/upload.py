"""Files to a place: only what is not there yet, side by side, each whole under its name or not at all.

A large file goes up in parts, where the file system can join them: a cut upload goes on after the parts that arrived,
from any machine, as their names say what they are of. Other file systems get a file under another name that is then
renamed.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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

    def __str__(self) -> str:
        resumed = f" ({self.kept_bytes / 1e6:.0f} MB of them had arrived before)" if self.kept_bytes else ""
        return f"{self.files} files, {self.nbytes / 1e6:.1f} MB{resumed}; {self.kept} were there already"


def upload(place: Place, files: Mapping[str, Path], last: Iterable[str] = ()) -> Sent:
    """Bring `files` (name there: file here) to a place; those named in `last` go up after all others, one by one.

    Raises StudyError in one line where something stops it; what has arrived stays and is not sent again.
    """
    with explained(place.address):
        there = place.listing()
        late = [name for name in last if name in files]
        early = [name for name in files if name not in late]
        large = [name for name in early if files[name].stat().st_size > PART]
        done = side_by_side(lambda name: _bring(place, name, files[name], there), [n for n in early if n not in large])
        done += [_bring(place, name, files[name], there) for name in [*large, *late]]
    counted = [(each.files, each.nbytes, each.kept, each.kept_bytes) for each in done]
    return Sent(*(sum(values) for values in zip(*counted, strict=True)))


def _bring(place: Place, name: str, path: Path, there: Mapping[str, dict[str, Any]]) -> Sent:
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
    _check(place, name, path)
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
        if said and int(facts["size"]) == span and file_checksum(path, said[0], start, span) == said[1]:
            return span
        with path.open("rb") as file:
            file.seek(start)
            place.fs.pipe_file(place.path(names[number]), file.read(span), chunksize=PART // 4)
        return 0

    arrived = sum(side_by_side(send, range(len(names))))
    place.fs.merge(place.path(name), [place.path(part) for part in names])
    place.fs.rm([place.path(part) for part in names])
    return arrived


def _check(place: Place, name: str, path: Path) -> None:
    """Compare what arrived; a difference is taken away again and is an error."""
    place.fs.invalidate_cache()
    if not is_same(path, place, name, place.fs.info(place.path(name))):
        place.fs.rm_file(place.path(name))
        raise StudyError(f"{place.told(name)}: arrived damaged and was taken away again; run again")


def unfinished(place: Place) -> list[str]:
    """Parts of uploads that were cut and never finished."""
    return [name for name in place.listing() if UNFINISHED in name.split("/")]
