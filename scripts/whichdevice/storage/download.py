"""Objects to files: only what differs, side by side, checked, and each whole under its name or not at all.

A cut download goes on where it stopped: the bytes so far lie beside the file, under a name that says of which object.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from whichdevice.errors import StudyError
from whichdevice.storage.checksums import file_checksum, is_same, stated
from whichdevice.storage.failures import explained
from whichdevice.storage.place import Place
from whichdevice.storage.side_by_side import side_by_side

BLOCK = 32 * 2**20
SLACK = 2**20  # bytes that a file system needs beside the content


def download(place: Place, files: Mapping[str, Path], listing: Mapping[str, dict[str, Any]]) -> int:
    """Bring objects (name there: file here) of a place's listing; how many of them were not here yet.

    Raises StudyError in one line where one is missing, damaged or too large for the disk; files here stay as they were.
    """
    for name in files:
        if name not in listing:
            raise StudyError(f"{place.told(name)} is gone; publish it again from the machine that made it")
    with explained(place.address):
        wanted = differing(place, files, listing)
        _check_room(list(files.values()), sum(int(listing[name]["size"]) for name in wanted))
        side_by_side(lambda name: _bring(place, name, files[name], listing[name]), wanted)
    return len(wanted)


def differing(place: Place, files: Mapping[str, Path], listing: Mapping[str, dict[str, Any]]) -> list[str]:
    """Of objects (name there: what is in its place here) those that hold something else there."""
    with explained(place.address):
        return [name for name, path in files.items() if not _is_here(place, name, path, listing[name])]


def _is_here(place: Place, name: str, path: Path, facts: dict[str, Any]) -> bool:
    return path.is_file() and is_same(path, place, name, facts)


def _check_room(paths: list[Path], nbytes: int) -> None:
    if not nbytes:
        return
    folder = paths[0].parent
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < nbytes + SLACK:
        raise StudyError(f"{paths[0].parent}: no room: {nbytes / 1e6:.0f} MB to fetch, {free / 1e6:.0f} MB free")


def _bring(place: Place, name: str, path: Path, facts: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    said, size = stated(facts), int(facts["size"])
    version = f"{name} {size} {said} {facts.get('generation')}"
    aside = path.with_name(f".{path.name}.{hashlib.sha256(version.encode()).hexdigest()[:12]}.part")
    for stale in set(path.parent.glob(f".{path.name}.*.part")) - {aside}:
        stale.unlink(missing_ok=True)
    if said is None:
        aside.unlink(missing_ok=True)  # nothing would show that halves do not fit
    _append(place, name, aside, size)
    if aside.stat().st_size != size or (said and file_checksum(aside, said[0]) != said[1]):
        aside.unlink()
        raise StudyError(f"{place.told(name)}: arrived damaged and was not kept; run again")
    os.replace(aside, path)


def _append(place: Place, name: str, aside: Path, size: int) -> None:
    with aside.open("ab") as file:
        start = file.tell()
        while start < size:
            end = min(size, start + BLOCK)
            block = place.fs.cat_file(place.path(name), start=start, end=end)
            if not block:
                break
            file.write(block)
            start += len(block)
        file.flush()
        with suppress(OSError):  # some file systems know no fsync
            os.fsync(file.fileno())
