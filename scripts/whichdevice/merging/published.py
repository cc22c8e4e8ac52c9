"""A study published elsewhere, fetched so that its report is drawn here from the same records; nothing is measured."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whichdevice.config.load import load_study
from whichdevice.config.model import Call
from whichdevice.config.yaml_file import check_yaml, parse_yaml
from whichdevice.errors import StudyError
from whichdevice.merging.devices import CONFIG, MOST_BYTES
from whichdevice.records.foreign import (
    MOST_ARTEFACT_BYTES,
    RECORD,
    foreign_record,
    foreign_run,
)
from whichdevice.records.store import write_atomically
from whichdevice.storage.download import download
from whichdevice.storage.failures import explained
from whichdevice.storage.place import Place, open_place

FOLDERS = ("runs/", "merged/")
COMPILED = re.compile(r"^compiled/[a-z0-9]+-[0-9x]+/[A-Za-z0-9_][A-Za-z0-9_.=-]*\.json$")
MARK = ".published"  # this folder holds a fetched study, and of which address, as a hash


def published_study(address: str, refresh: bool = True, may_change: Callable[[Path], bool] = lambda root: True) -> Call:
    """The study published at an address, its records and compiled programs brought to results/<study>.

    Where `may_change` denies that folder, nothing is brought. Raises StudyError where there is none, where it cannot be
    read, or where results/<study> holds records of its own.
    """
    if not refresh and (fetched := _fetched(address)) is not None:
        return fetched
    place = open_place(address)
    listing = place.listing()
    if CONFIG not in listing:
        raise StudyError(f"results_from: no study was published at {place.address} (no {CONFIG} there)")
    call = load_study(_values(place, listing), place.told(CONFIG))
    root = Path(call.root)
    _check(root, address)
    if not may_change(root):
        return call
    write_atomically(f"{_mark(address)}\n", root / MARK)
    records = {name: root / name for name in listing if name.startswith(FOLDERS) and foreign_run(name) is not None}
    compiled = {name: root / name for name in listing if COMPILED.match(name)}
    download(place, {**records, **compiled}, listing)
    download(place, _artefacts(records, root, place, listing), listing)
    for folder in FOLDERS:
        for stale in set((root / folder).rglob(RECORD)) - set(records.values()):
            stale.unlink()
    return call


def _fetched(address: str) -> Call | None:
    """The study as an earlier call fetched it from the address."""
    mark = _mark(address)
    for path in Path("results").glob(f"*/{MARK}"):
        if path.read_text(encoding="ascii", errors="replace").strip() == mark and (path.parent / CONFIG).is_file():
            return load_study(check_yaml(path.parent / CONFIG))
    return None


def fetched_records(root: Path) -> list[Path]:
    """The merged records among those fetched; the study's own ones are found by its config."""
    return sorted(path for path in (root / "merged").rglob(RECORD) if foreign_run(path.as_posix()) is not None)


def _values(place: Place, listing: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if int(listing[CONFIG]["size"]) > MOST_BYTES:
        raise StudyError(f"{place.told(CONFIG)}: {int(listing[CONFIG]['size']) / 1e6:.0f} MB is no config")
    with explained(place.address):
        text = place.fs.cat_file(place.path(CONFIG)).decode("utf-8", "replace")
    return parse_yaml(text, place.told(CONFIG))


def _check(root: Path, address: str) -> None:
    """Records of this machine, or of another address, are never mixed in."""
    path = root / MARK
    if not path.is_file() and any(True for folder in FOLDERS for _ in (root / folder).rglob(RECORD)):
        raise StudyError(
            f"results_from: {root} holds records of its own; move it away, or bring both together with merge"
        )
    if path.is_file() and path.read_text(encoding="ascii", errors="replace").strip() != _mark(address):
        raise StudyError(f"results_from: {root} was fetched from another address; move it away first")


def _mark(address: str) -> str:
    return hashlib.sha256(address.rstrip("/").encode()).hexdigest()[:16]


def _artefacts(
    records: dict[str, Path], root: Path, place: Place, listing: dict[str, dict[str, Any]]
) -> dict[str, Path]:
    """What the records declare and the place has."""
    found: dict[str, Path] = {}
    for name, path in records.items():
        run = foreign_run(name)
        if run is None:
            continue
        try:
            record = foreign_record(path.read_bytes(), run, place.told(name))
        except StudyError:
            continue  # the tables say so
        beside = name.removesuffix(RECORD)
        names = (f"{beside}{artefact.file}" for artefact in record.artefacts.values())
        found |= {
            file: root / file for file in names if file in listing and int(listing[file]["size"]) <= MOST_ARTEFACT_BYTES
        }
    return found
