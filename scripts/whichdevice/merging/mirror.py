"""Records of another machine, brought below results/<study>/merged, checked and under their new names.

Only what changed at the source is read again. What lies here names neither the source nor its path.
"""

import hashlib
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from whichdevice.cells import Cell, Run
from whichdevice.config.faults import did_you_mean
from whichdevice.config.storage import Merge
from whichdevice.errors import StudyError
from whichdevice.merging.devices import device_settings
from whichdevice.merging.listed import counted_there, listed_runs
from whichdevice.records.facts import Machine
from whichdevice.records.foreign import (
    MOST_ARTEFACT_BYTES,
    MOST_BYTES,
    foreign_record,
    foreign_run,
    on_device,
)
from whichdevice.records.results_folder import RECORD, ended
from whichdevice.records.schema import Record
from whichdevice.records.store import Refused, write_atomically, write_record
from whichdevice.storage.download import download
from whichdevice.storage.failures import explained
from whichdevice.storage.place import Place, open_place
from whichdevice.storage.side_by_side import side_by_side

INDEX = "index.json"


class Mirrored(BaseModel):
    """What is known of one mirrored record without reading it again."""

    model_config = ConfigDict(extra="forbid")

    version: str  # of the object that it was made of, and of its new name
    name: str  # there, below the source
    digest: str
    device: str  # its name there
    kind: str | None = None  # None: the record was refused; the tables say why
    replicas: int = 1
    module: str | None = None
    hardware: str | None = None
    usd_per_hour: float | None = None
    machine: Machine | None = None
    ended: float | None = None  # seconds since 1970; None: refused, or brought by an earlier version


def source_id(merge: Merge) -> str:
    """Folder of a source's records here: no address, as that may name a project or a person."""
    return hashlib.sha256(merge.source.encode()).hexdigest()[:8]


def mirror(merge: Merge, folder: Path, refresh: bool = True) -> dict[Run, Mirrored]:
    """Bring a source's records to `folder`; for each run, under its new name, what is known of its record.

    Without `refresh` what was brought before counts, and nothing is asked of the source. Raises StudyError where the
    source cannot be read, has no record, or lacks a device that is renamed.
    """
    before = read_index(folder)
    if not refresh and before:
        return before
    place = open_place(merge.source)
    listing = place.listing()
    named = listed_runs(listing, counted_there(place, listing))
    if not named:
        raise StudyError(f"merge: no record.json of a run below {merge.source}")
    _check_names(merge, sorted({run.cell.device for run in named}))
    with explained(place.address):
        brought = side_by_side(partial(_bring, merge, place, listing, folder, before), named.items())
    settings = device_settings(place, listing)
    found = {run: mirrored.model_copy(update=settings.get(mirrored.device, {})) for run, mirrored in brought}
    _forget(folder, before.keys() - found.keys())
    text = json.dumps({run.path: mirrored.model_dump(mode="json") for run, mirrored in found.items()}, indent=1)
    write_atomically(text, folder / INDEX)
    return found


def record_path(folder: Path, run: Run) -> Path:
    """Where a run's mirrored record lies."""
    return folder / run.path / RECORD


def _check_names(merge: Merge, devices: list[str]) -> None:
    """Every renamed device is there, and no two devices have one name afterwards."""
    for device in merge.rename:
        if device not in devices:
            raise StudyError(f"merge: rename: {merge.source} has no device {device}{did_you_mean(device, devices)}")
    taken: set[str] = set()
    for device in devices:
        name = merge.rename.get(device, device)
        if name in taken:
            raise StudyError(f"merge: {merge.source}: after renaming, {name} is two devices; rename both apart")
        taken.add(name)


def _bring(
    merge: Merge,
    place: Place,
    listing: dict[str, dict[str, Any]],
    folder: Path,
    before: dict[Run, Mirrored],
    item: tuple[Run, list[str]],
) -> tuple[Run, Mirrored]:
    there, names = item
    here = Run(_renamed(there, merge), there.repeat)
    version = _version([listing[name] for name in names])
    path = record_path(folder, here)
    known = before.get(here)
    unchanged = version and known and known.version == version and known.name in names and path.is_file()
    if unchanged and known and known.ended is not None:  # a refused one may be read by a newer version of ours
        return here, known
    name, content = _latest(place, names, listing)
    facts = Mirrored(version=version, name=name, digest=hashlib.sha256(content).hexdigest(), device=there.cell.device)
    try:
        record = foreign_record(content, there, there.path)
    except StudyError as error:
        _refuse(str(error), path)
        return here, facts
    _bring_artefacts(place, name, record, listing, path.parent)
    write_record(on_device(record, here.cell.device), path)
    return here, facts.model_copy(update=_told(record))


def _told(record: Record) -> dict[str, Any]:
    asked = record.asked
    return {
        "kind": asked.kind,
        "replicas": asked.replicas,
        "module": asked.module,
        "machine": record.machine,
        "ended": record.ended.timestamp(),
    }


def _latest(place: Place, names: list[str], listing: dict[str, dict[str, Any]]) -> tuple[str, bytes]:
    """Of the records of one run the one that ended last, with its content."""
    for name in names:
        if int(listing[name]["size"]) > MOST_BYTES:
            raise StudyError(f"{place.told(name)}: {int(listing[name]['size']) / 1e6:.0f} MB is no record")
    contents = {name: place.fs.cat_file(place.path(name)) for name in names}
    latest = max(contents, key=lambda name: ended(contents[name])) if len(names) > 1 else names[0]
    return latest, contents[latest]


def _refuse(why: str, path: Path) -> None:
    """Leave the reason in the record's place and nothing of the record, so that nobody can take it for one."""
    text = Refused(refused=why).model_dump_json()
    if not path.is_file() or path.read_text(encoding="utf-8", errors="replace") != text:
        write_atomically(text, path)


def _bring_artefacts(place: Place, name: str, record: Record, listing: dict[str, dict[str, Any]], folder: Path) -> None:
    """The files beside a record that are there and are what the record says; without them it still counts."""
    beside = name.removesuffix(RECORD)
    files = {f"{beside}{artefact.file}": folder / artefact.file for artefact in record.artefacts.values()}
    present = {
        there: here
        for there, here in files.items()
        if there in listing and int(listing[there]["size"]) <= MOST_ARTEFACT_BYTES
    }
    download(place, present, listing)
    for artefact in record.artefacts.values():
        path = folder / artefact.file
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() != artefact.sha256:
            path.unlink()


def _renamed(run: Run, merge: Merge) -> Cell:
    return replace(run.cell, device=merge.rename.get(run.cell.device, run.cell.device))


def _version(objects: list[dict[str, Any]]) -> str:
    """What changes when one of the objects does; empty where the file system does not say."""
    keys = ("size", "crc32c", "md5Hash", "ETag", "generation", "mtime", "date_time")
    known = [[facts.get(key) for key in keys] for facts in objects]
    if any(all(value is None for value in values[1:]) for values in known):
        return ""
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]


def read_index(folder: Path) -> dict[Run, Mirrored]:
    """What an earlier call brought to a source's folder."""
    try:
        content = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        found = {foreign_run(f"{run}/{RECORD}"): Mirrored.model_validate(facts) for run, facts in content.items()}
    except (OSError, ValueError, ValidationError, AttributeError):
        return {}
    return {run: facts for run, facts in found.items() if run is not None and record_path(folder, run).is_file()}


def _forget(folder: Path, runs: set[Run]) -> None:
    for run in runs:
        record_path(folder, run).unlink(missing_ok=True)
