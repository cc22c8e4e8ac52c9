"""Read, write and list records: each is replaced as a whole; a record from another machine is checked before use.

A study's results hold its own records below `runs`, other machines' below `merged/<id>`. `merged/<id>/source.json` says
what the devices of a source are. Reading changes nothing.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import get_args

from pydantic import Field, ValidationError

from whichdevice.base.errors import StudyError
from whichdevice.base.files import write_atomically, write_changed
from whichdevice.base.parts import Integer, Part, first_fault, read_as
from whichdevice.measure.record import SCHEMA_VERSION, Machine, Record
from whichdevice.study.cells import MERGED, Run, parse_run
from whichdevice.study.config.model import LONGEST_NAME, NAME, DeviceKind

RECORD = "record.json"
MAX_RECORD_BYTES = 32 * 2**20  # of a record; one of a long run is some 100 kB
NAMED = re.compile(NAME)
RECORD_KEY = re.compile(r"[0-9a-f]{12}")  # of a record: the folder between r<repeat> and record.json
FILE = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9_.=-]*")
OWN, SOURCE, CONFIG = "runs", "source.json", "config.yaml"
KEYS = "keys.json"  # of the last call: which record of each run counts


def foreign_run(name: str) -> Run | None:
    """The run that a record's path names, or None where it is not exactly what a run of ours is called.

    The path ends in <device>/<workload>/<cell>/r<repeat>/record.json, with or without the record's key before the file.
    """
    *folders, file = name.split("/")
    if folders and RECORD_KEY.fullmatch(folders[-1]):
        folders.pop()
    path = "/".join(folders[-4:])
    if file != RECORD or len(folders) < 4:
        return None
    try:
        run = parse_run(path)
    except StudyError:
        return None
    named = all(NAMED.fullmatch(part) and len(part) <= LONGEST_NAME for part in (run.cell.device, run.cell.workload))
    return run if named and run.path == path else None


def foreign_record(content: bytes, run: Run, where: str) -> Record:
    """The record of `run`; raises StudyError naming `where` if it is unreadable, of another run or names odd files."""
    if len(content) > MAX_RECORD_BYTES:
        raise StudyError(f"{where}: {len(content) / 1e6:.0f} MB is no record")
    try:
        record = Record.model_validate_json(content)
    except ValidationError as error:
        raise StudyError(f"{where}: unreadable: {': '.join(first_fault(error))}") from None
    if (why := why_refused(record, run)) is not None:
        raise StudyError(f"{where}: {why}")
    return record


def why_refused(record: Record, run: Run | None) -> str | None:
    """Return what in a record cannot be trusted; None where all can. `run` is the run that its path names, if any."""
    if record.asked.kind not in get_args(DeviceKind):
        return f"asked.kind {record.asked.kind[:40]!r} is no kind of device"
    for name, artefact in record.artefacts.items():
        if not _is_plain(artefact.file):
            return f"artefact {name[:40]!r} is no file beside the record"
    if run is None:
        return None
    named = vars(run.cell)
    recorded = {axis: getattr(record.asked, axis) for axis in named}
    if record.run != run.path or recorded != named or record.asked.repeat != run.repeat:
        return "says that it is of another run than its path"
    return None


def on_device(record: Record, device: str) -> Record:
    """The record under another name of its device."""
    run = "/".join([device, *record.run.split("/")[1:]])
    return record.model_copy(update={"run": run, "asked": record.asked.model_copy(update={"device": device})})


def _is_plain(file: str) -> bool:
    parts = file.split("/")
    return len(file) < 300 and RECORD not in parts and all(FILE.fullmatch(part) for part in parts)


def same_machine(one: Machine, other: Machine) -> bool:
    """Whether two records may be of one machine: by identity where both have it, else by processor, memory and system.

    So two of a kind without an identity, such as containers of one image, look like one.
    """
    if one.cpu != other.cpu or _gibibytes(one) != _gibibytes(other):
        return False
    if one.identity and other.identity:
        return one.identity == other.identity
    return one.operating_system == other.operating_system


def describe_machine(machine: Machine) -> str:
    """The machine in a message, e.g. `AMD EPYC 9B14, 24 GiB, machine 3f9a1c`."""
    memory = f", {_gibibytes(machine)} GiB" if machine.memory else ""
    identity = f", machine {machine.identity[:6]}" if machine.identity else ""
    return f"{machine.cpu or machine.device_name or 'unknown'}{memory}{identity}"


def _gibibytes(machine: Machine) -> int | None:
    return None if machine.memory is None else round(machine.memory / 2**30)


def write_record(record: Record, path: Path) -> None:
    """Replace the record at `path` atomically; the old one stays whole until then."""
    write_atomically(record.model_dump_json(indent=1), path)


def read_record(path: Path) -> Record:
    """Read one record, checked as one from elsewhere is, for it may be.

    Raises StudyError that names the file when it is cut, garbled, of another schema or of another run than its path
    names.
    """
    record = read_as(Record, path, f"schema {SCHEMA_VERSION}")
    if (why := why_refused(record, foreign_run(path.absolute().as_posix()))) is not None:
        raise StudyError(f"record {path} {why}; delete it to make it anew")
    return record


def recorded(root: Path) -> Iterator[Record]:
    """Yield a study's own records that can be read."""
    for path in sorted((root / OWN).rglob(RECORD)):
        with suppress(StudyError):
            yield read_record(path)


def artefact_path(record_path: Path, file: str) -> Path | None:
    """Return the path of an artefact's file; None where it is gone, or a link that leaves the record's folder."""
    path = record_path.parent / file
    inside = path.resolve().is_relative_to(record_path.parent.resolve())
    return path if inside and path.is_file() else None


class MergedDevice(Part):
    """A device of a source, as its newest record and its study's config describe it."""

    kind: DeviceKind
    replicas: Integer = 1
    hardware: str | None = None  # row of config/hardware.csv
    usd_per_hour: float | None = None
    machine: Machine  # of its newest record
    elsewhere: bool = True  # another machine's: never measured here


class MergedSource(Part):
    """The content of source.json."""

    devices: dict[str, MergedDevice] = Field(default_factory=dict)  # by their names here
    workloads: dict[str, str] = Field(default_factory=dict)  # name: module


def source_folder(root: Path, address: str) -> Path:
    """Folder of a source's records; not by its address, as that may name a project or a person."""
    place = address.rstrip("/") if "://" in address else str(Path(address).expanduser().resolve())
    return root / MERGED / hashlib.sha256(place.encode()).hexdigest()[:8]


def merged_sources(root: Path) -> dict[Path, MergedSource]:
    """The merged sources of results/<study> by their folders; raises StudyError where one cannot be read."""
    sources = {}
    for path in sorted((root / MERGED).glob(f"[!.]*/{SOURCE}")):
        try:
            sources[path.parent] = MergedSource.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            raise StudyError(f"cannot read {path}: delete {path.parent} and bring its records again") from None
    return sources


def merged_records(root: Path) -> dict[Run, Path]:
    """The merged records of results/<study>, one of each run: of several sources the record that ended last."""
    places: dict[Run, list[Path]] = {}
    for folder, source in merged_sources(root).items():
        for path in sorted((folder / OWN).rglob(RECORD)):
            run = foreign_run(path.as_posix())
            if run is not None and run.cell.device in source.devices:
                places.setdefault(run, []).append(path)
    return {run: paths[0] if len(paths) == 1 else max(paths, key=_file_ended) for run, paths in places.items()}


def measured_elsewhere(root: Path) -> set[str]:
    """Names of the devices that only other machines measure."""
    return {
        name for source in merged_sources(root).values() for name, device in source.devices.items() if device.elsewhere
    }


def write_keys(keys: Mapping[str, str], root: Path) -> None:
    """Note which record of each run counts now, by the run's path, in results/<study>/keys.json."""
    write_changed(json.dumps(dict(sorted(keys.items())), indent=0), root / KEYS)


def parse_keys(content: bytes) -> dict[str, str]:
    """The content of a keys.json, which may come from elsewhere; empty where it is none."""
    try:
        noted = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return {str(run): str(key) for run, key in noted.items()} if isinstance(noted, dict) else {}


def ended(content: bytes) -> float:
    """When the run of a record ended, in seconds since 1970; 0 for one that cannot be read."""
    try:
        return datetime.fromisoformat(json.loads(content)["ended"]).timestamp()
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return 0.0


def _file_ended(path: Path) -> float:
    try:
        return ended(path.read_bytes())
    except OSError:
        return 0.0
