"""A study to the bucket: records with artefacts, tables, figures, report, exported models; laid out as results/ is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from whichdevice.errors import StudyError
from whichdevice.records.foreign import foreign_record, foreign_run
from whichdevice.records.machine import same_machine, told
from whichdevice.records.results_folder import COUNTED, MERGED, OWN, RECORD, counted_sources
from whichdevice.records.schema import Record
from whichdevice.records.store import artefact_path, read_record, refusal
from whichdevice.storage.checksums import is_same
from whichdevice.storage.failures import explained
from whichdevice.storage.place import Place
from whichdevice.storage.upload import Sent, is_json, upload

NEWER, DAMAGED = "newer there", "damaged here"
COMPILED = ("compiled/*/*.json",)
SETTINGS = (f"{MERGED}/{COUNTED}", "config.yaml")
RESULTS = ("tables/*.csv", "figures/*.svg", "figures/*.png", "models/**/*", "report.html", "report.md", "compare.html")


def publish(root: Path, bucket: Place) -> Sent:
    """Upload `results/<study>`, only what differs; config.yaml last, as who fetches a study begins with it.

    Records that the bucket has from another machine, under the same names, are never replaced: StudyError. Where it
    has later ones of this machine, they stay, and with them the tables, figures, report and config made from them.
    """
    place = bucket.below(root.name)
    records, artefacts = _records(root)
    listing = place.listing()
    there = {name: _there(place, name, path, listing) for name, path in records.items()}
    unknown = sum(name.startswith(f"{OWN}/") and foreign_run(name) is not None for name in listing.keys() - records)
    records = {name: path for name, path in records.items() if there[name] is None}
    stale = tuple(name.removesuffix(RECORD) for name, why in there.items() if why)
    beside = {name: path for name, path in artefacts.items() if not name.startswith(stale)}
    newer = sum(why == NEWER for why in there.values())
    compiled, made = _files(root, COMPILED), [_files(root, RESULTS), _files(root, SETTINGS)]
    if newer:
        compiled, made = {name: path for name, path in compiled.items() if name not in listing}, []
    return replace(upload(place, beside, records, compiled, *made), newer=newer, unknown=unknown)


def _files(root: Path, patterns: Sequence[str]) -> dict[str, Path]:
    found = (path for pattern in patterns for path in sorted(root.glob(pattern)))
    return {path.relative_to(root).as_posix(): path for path in found if path.is_file() and path.name[0] != "."}


def _records(root: Path) -> tuple[dict[str, Path], dict[str, Path]]:
    """Records that count, and the artefacts that they declare, by their names below the study."""
    records: dict[str, Path] = {}
    artefacts: dict[str, Path] = {}
    for folder in [root / OWN, *counted_sources(root / MERGED)]:
        for path in sorted(folder.rglob(RECORD)):
            records[path.relative_to(root).as_posix()] = path
            try:
                declared = read_record(path).artefacts.values()
            except StudyError:
                continue  # told in the tables; it is published as it is
            for artefact in declared:
                if (file := artefact_path(path, artefact)) is not None:
                    artefacts[file.relative_to(root).as_posix()] = file
    return records, artefacts


def _there(place: Place, name: str, path: Path, listing: Mapping[str, dict[str, Any]]) -> str | None:
    """Why the record in the bucket is not to be replaced by ours; StudyError where it is another machine's."""
    facts = listing.get(name)
    with explained(place.address):
        if facts is None or is_same(path, place, name, facts):
            return None
        content = place.fs.cat_file(place.path(name))
    own, other = _readable(path.read_bytes(), name), _readable(content, name)
    if own is None:
        return DAMAGED
    if other is None and refusal(content) is None and is_json(content):
        raise StudyError(
            f"{place.told(name)} cannot be read here, perhaps of a newer version of the project; update this one, "
            "delete that record, or publish under another study name (study=<name>)"
        )
    if other is None:
        return None  # damaged there, or refused when it was merged: ours mends it
    if not same_machine(own.machine, other.machine):
        device = own.asked.device
        raise StudyError(
            f"{place.told(name)} was measured on another machine ({told(other.machine)}; here: {told(own.machine)}): "
            "publish under another study name (study=<name>), and bring both together with merge and "
            f"rename: {{{device}: {device}_2}}"
        )
    return NEWER if other.ended > own.ended else None


def _readable(content: bytes, name: str) -> Record | None:
    run = foreign_run(name)
    try:
        return None if run is None else foreign_record(content, run, name)
    except StudyError:
        return None
