"""A study published elsewhere, fetched so that its report is drawn here from the same records; nothing is measured."""

import hashlib
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from whichdevice.cells import Run
from whichdevice.config.faults import brief
from whichdevice.config.load import load_study
from whichdevice.config.model import Call, Study
from whichdevice.config.yaml_file import check_yaml, parse_yaml
from whichdevice.errors import StudyError
from whichdevice.merging.devices import CONFIG, MOST_BYTES
from whichdevice.merging.listed import COUNTED_NAME, FOLDERS, counted_there
from whichdevice.records.foreign import MOST_ARTEFACT_BYTES, foreign_record, foreign_run
from whichdevice.records.foreign import MOST_BYTES as MOST_RECORD_BYTES
from whichdevice.records.results_folder import MERGED, RECORD, counts, record_paths
from whichdevice.records.store import write_atomically
from whichdevice.storage.download import download
from whichdevice.storage.failures import explained
from whichdevice.storage.place import Place, open_place, safe_name
from whichdevice.study_runs import workload_files

COMPILED = re.compile(r"compiled/[a-z0-9]+-[0-9x]+/[A-Za-z0-9_][A-Za-z0-9_.=-]*\.json")
MARK = ".published"  # this folder holds a fetched study, and of which address, as a hash


def published_study(
    address: str,
    refresh: bool = True,
    may_change: Callable[[Path], bool] = lambda root: True,
    own_files: Collection[str] = (),
) -> Call:
    """The study published at an address, its records and compiled programs brought to results/<study>.

    Of Python files it may name `own_files` alone, for what another person's config names is never run. Where
    `may_change` denies that folder, nothing is brought. Raises StudyError where there is none, where it cannot be read,
    or where results/<study> holds records of its own.
    """
    if not refresh and (fetched := _fetched(address, own_files)) is not None:
        return fetched
    place = open_place(address)
    listing = place.listing()
    if CONFIG not in listing:
        raise StudyError(f"results_from: no study was published at {place.address} (no {CONFIG} there)")
    call = _their_call(_values(place, listing), place.told(CONFIG), own_files)
    root = Path(call.root)
    _check(root, address)
    if not may_change(root):
        return call
    write_atomically(f"{_mark(address)}\n", root / MARK)
    ids = counted_there(place, listing)
    records = {name: root / name for name in listing if _is_record(name) and counts(name, ids)}
    for name in records:
        if (size := int(listing[name]["size"])) > MOST_RECORD_BYTES:
            raise StudyError(f"{place.told(name)}: {size / 1e6:.0f} MB is no record")
    others = {name: root / name for name in listing if COMPILED.fullmatch(name)}
    if ids is None:
        (root / COUNTED_NAME).unlink(missing_ok=True)
    else:
        others[COUNTED_NAME] = root / COUNTED_NAME
    download(place, {**records, **others}, listing)
    download(place, _artefacts(records, root, place, listing), listing)
    for folder in FOLDERS:
        for stale in set((root / folder).rglob(RECORD)) - set(records.values()):
            stale.unlink()
    return call


def _their_call(values: Any, where: str, own_files: Collection[str]) -> Call:
    if isinstance(values, dict) and (more := [key for key in values if key not in Study.model_fields]):
        raise StudyError(f"{where}: {brief(more[0])} is no key of a published study")
    call = load_study(values, where)
    for module, name in workload_files(call).items():
        if module not in own_files:
            raise StudyError(
                f"{where}: workloads.{name}: {brief(module)} is a Python file, and of those none is run but what your "
                f"own config names: look at it, then name it as the module of a workload there (docs/bucket.md)"
            )
    return call


def _is_record(name: str) -> bool:
    return name.startswith(FOLDERS) and safe_name(name) and foreign_run(name) is not None


def _fetched(address: str, own_files: Collection[str]) -> Call | None:
    """The study as an earlier call fetched it from the address."""
    mark = _mark(address)
    for path in Path("results").glob(f"*/{MARK}"):
        if path.read_text(encoding="ascii", errors="replace").strip() == mark and (path.parent / CONFIG).is_file():
            return _their_call(check_yaml(path.parent / CONFIG), str(path.parent / CONFIG), own_files)
    return None


def fetched_records(root: Path) -> dict[Run, Path]:
    """The merged records among those fetched, one of each run; the study's own ones are found by its config."""
    merged = [path for path in record_paths(root) if path.is_relative_to(root / MERGED)]
    return {run: path for path in merged if (run := foreign_run(path.as_posix())) is not None}


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
