"""Read, write and list records: each is replaced as a whole; a record from another machine is checked before use.

A study's results hold its own records below `runs`, other machines' below `merged/<id>`. `merged/<id>/source.json` says
which records of a source count and what its devices are. It is written last, so a reader meets what one whole merge
brought. Reading changes nothing.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Annotated, TypeVar, get_args

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from whichdevice.base.errors import StudyError, one_line
from whichdevice.base.files import write_atomically
from whichdevice.measure.record import SCHEMA_VERSION, Integer, Machine, Part, Record
from whichdevice.study.cells import Run, parse_run
from whichdevice.study.config.model import LONGEST_NAME, NAME, Device, DeviceKind

RECORD = "record.json"
MAX_RECORD_BYTES = 32 * 2**20  # of a record; one of a long run is some 100 kB
MAX_ARTEFACT_BYTES = 2**30
NAMED = re.compile(NAME)
RECORD_KEY = re.compile(r"[0-9a-f]{12}")  # of a record: the folder between r<repeat> and record.json
FILE = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9_.=-]*")
AnyRecord = TypeVar("AnyRecord", bound=BaseModel)
OWN, MERGED, SOURCE, CONFIG = "runs", "merged", "source.json", "config.yaml"
KEYS = "keys.json"  # of the last call: which record of each run counts
Key = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]


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
        raise StudyError(f"{where}: unreadable: {': '.join(_first_fault(error))}") from None
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
    said = {axis: getattr(record.asked, axis) for axis in named}
    if record.run != run.path or said != named or record.asked.repeat != run.repeat:
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


class Refused(Part):
    """The file in the place of a refused record from elsewhere: the reason, and nothing of the record."""

    refused: str


def write_record(record: Record, path: Path) -> None:
    """Replace the record at `path` atomically; the old one stays whole until then."""
    write_atomically(record.model_dump_json(indent=1), path)


def read_record(path: Path) -> Record:
    """Read one record, checked as one from elsewhere is, for it may be.

    Raises StudyError that names the file when it is cut, garbled, of another schema, of another run than its path
    names, or was refused where it came from.
    """
    try:
        record = read_as(Record, path, f"schema {SCHEMA_VERSION}")
    except StudyError:
        if (why := _read_refusal(path)) is not None:
            raise StudyError(f"record {path} was refused: {why}") from None
        raise
    if (why := why_refused(record, foreign_run(path.absolute().as_posix()))) is not None:
        raise StudyError(f"record {path} {why}; delete it to make it anew")
    return record


def _read_refusal(path: Path) -> str | None:
    try:
        return refusal(path.read_bytes())
    except OSError:
        return None


def refusal(content: bytes) -> str | None:
    """Why a record was refused where it came from; None for the content of any other file."""
    try:
        return Refused.model_validate_json(content).refused
    except ValidationError:
        return None


def artefact_path(record_path: Path, file: str) -> Path | None:
    """Return the path of an artefact's file; None where it is gone, or a link that leaves the record's folder."""
    path = record_path.parent / file
    inside = path.resolve().is_relative_to(record_path.parent.resolve())
    return path if inside and path.is_file() else None


def read_as(model: type[AnyRecord], path: Path, schema: str) -> AnyRecord:
    """Read a record of any kind; raises StudyError that names the file and the schema."""
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StudyError(f"cannot read record {path}: {error.strerror or error}") from error
    except ValidationError as error:
        place, reason = _first_fault(error)
        hint = "" if place == "schema_version" else "; delete it to make it anew"
        raise StudyError(f"record {path} is not readable as {schema}: {place}: {reason}{hint}") from error


def _first_fault(error: ValidationError) -> tuple[str, str]:
    """Where in a record the first fault is, and what it is."""
    first = error.errors(include_url=False)[0]
    place = " ".join(".".join(str(part) for part in first["loc"]).split())[:100]
    return place or "the file", first["msg"].removeprefix("Value error, ")


class MergedDevice(Part):
    """A device of a source, as its newest record and its study's config describe it."""

    name: str  # in the source
    kind: DeviceKind
    replicas: Integer = 1
    hardware: str | None = None  # row of config/hardware.csv
    usd_per_hour: float | None = None
    models: list[str] = Field(default_factory=list)  # of processor or accelerator, in its records
    elsewhere: bool = True  # never measured here: renamed, or not a device of this study when it was merged


class MergedRecord(Part):
    """One record of a source that counts."""

    key: Key | None = None  # the folder between r<repeat> and record.json, where there is one
    version: str = ""  # changes when the source's file does; empty where its file system does not say


class MergedSource(Part):
    """The content of source.json."""

    fetched: bool = False  # a whole published study that is only shown here
    devices: dict[str, MergedDevice] = Field(default_factory=dict)  # by their names here
    workloads: dict[str, str] = Field(default_factory=dict)  # name: module
    records: dict[str, MergedRecord] = Field(default_factory=dict)  # by <device>/<workload>/<cell>/r<repeat>

    def paths(self, folder: Path) -> dict[Run, Path]:
        """Run and path of each record in the source's folder; a name that is no run is left out."""
        keys = {foreign_run(f"{name}/{RECORD}"): record.key for name, record in self.records.items()}
        return {run: record_path(folder / OWN, run, key) for run, key in keys.items() if run is not None}


def record_path(runs: Path, run: Run, key: str | None = None) -> Path:
    """Return where the record of a run is below a folder of runs, with the folder of its key where it has one."""
    return runs / run.path / (key or "") / RECORD


def merged_sources(root: Path) -> dict[Path, MergedSource]:
    """The merged sources of results/<study> by their folders; raises StudyError where one cannot be read."""
    sources = {}
    for path in sorted((root / MERGED).glob(f"[!.]*/{SOURCE}")):
        try:
            sources[path.parent] = MergedSource.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            raise StudyError(f"cannot read {path}: delete {path.parent} and merge again") from None
    return sources


def merged_records(root: Path) -> dict[Run, Path]:
    """The merged records of results/<study>, one of each run: of several sources the record that ended last."""
    places: dict[Run, list[Path]] = {}
    for folder, source in merged_sources(root).items():
        for run, path in source.paths(folder).items():
            places.setdefault(run, []).append(path)
    return {run: paths[0] if len(paths) == 1 else max(paths, key=_file_ended) for run, paths in places.items()}


def measured_elsewhere(root: Path) -> set[str]:
    """Names of the devices that only other machines measure."""
    return {
        name for source in merged_sources(root).values() for name, device in source.devices.items() if device.elsewhere
    }


def find_clash(
    root: Path,
    folder: Path,
    source: MergedSource,
    own: Mapping[str, Device],
    machines: Mapping[Run, Machine],
    measured_here: Mapping[str, Machine],
) -> tuple[str, str, str] | None:
    """A name of a new source's devices that stands for another device here, why, and a free name; None without one.

    `folder`: of the source; `own`: devices of the study's config; `machines`: of the source's records; `measured_here`:
    devices that this host measures too. Two devices of one name differ in kind, replicas or sheet row, have no model of
    processor or accelerator in common, or have the same run on two machines.
    """
    others = {path: other for path, other in merged_sources(root).items() if path != folder}
    found = next(
        chain(_other_devices(source, own, others), _other_machines(root, others, machines, measured_here)), None
    )
    if found is None:
        return None
    name, why = found
    taken = {*own, *source.devices, *(name for other in others.values() for name in other.devices)}
    names = (f"{source.devices[name].name}_{number}" for number in count(2))
    return name, why, next(free for free in names if free not in taken)


def _other_devices(
    source: MergedSource, own: Mapping[str, Device], others: Mapping[Path, MergedSource]
) -> Iterator[tuple[str, str]]:
    """Names of devices that are something else in the config or another source, and why."""
    for name, device in source.devices.items():
        known = [other.devices[name] for other in others.values() if name in other.devices]
        keys = ["kind", "replicas", *(["hardware"] if name == device.name else [])]
        for same_name in [*([own[name]] if name in own else []), *known]:
            for key in keys:
                pair = getattr(device, key), getattr(same_name, key)
                if pair[0] != pair[1] and None not in pair:
                    yield name, f"has {key} {pair[0]} there and {pair[1]} here"
        for there in known:
            if device.models and there.models and not {*device.models} & {*there.models}:
                models = [one_line(models[0][:80]) for models in (device.models, there.models)]
                yield name, f"is {models[0]} there and {models[1]} in another source"


def _other_machines(
    root: Path,
    others: Mapping[Path, MergedSource],
    machines: Mapping[Run, Machine],
    measured_here: Mapping[str, Machine],
) -> Iterator[tuple[str, str]]:
    """Names of devices of which another machine measured the same run or measures it here, and why."""
    measured: dict[Run, list[Path]] = {}
    for path, other in others.items():
        for run, record in other.paths(path).items():
            measured.setdefault(run, []).append(record)
    for run, machine in machines.items():
        name = run.cell.device
        machines_here = [_machine(path) for path in [*(root / OWN / run.path).rglob(RECORD), *measured.get(run, [])]]
        for other_machine in [*machines_here, measured_here.get(name)]:
            if other_machine is not None and not same_machine(machine, other_machine):
                texts = describe_machine(machine), describe_machine(other_machine)
                yield name, f"was measured on another machine ({texts[0]}) than here ({texts[1]})"


def _machine(path: Path) -> Machine | None:
    """The machine of a record; None where that cannot be read."""
    try:
        return Machine.model_validate(json.loads(path.read_bytes())["machine"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def record_paths(folder: Path) -> list[Path]:
    """The records of a results folder, one of each run, or all below any other folder.

    An own one comes before merged ones of its run, and of these the one that ended last, as in the study's tables. An
    own one of an earlier request or code comes last.
    """
    if not ((folder / OWN).is_dir() or (folder / MERGED).is_dir()):
        return sorted(folder.rglob(RECORD))
    own_paths, keys = own_records(folder), read_keys(folder)
    current = {run: path for run, path in own_paths.items() if path.parent.name == keys.get(run.path, path.parent.name)}
    return sorted({**own_paths, **merged_records(folder), **current}.values())


def own_records(root: Path) -> dict[Run, Path]:
    """Return results/<study>'s own records, one for each run: of the last call's config and code, else the newest."""
    places: dict[Run, list[Path]] = {}
    for path in sorted((root / OWN).rglob(RECORD)):
        if (run := foreign_run(path.as_posix())) is not None:
            places.setdefault(run, []).append(path)
    keys = read_keys(root)
    return {run: _counting(paths, keys.get(run.path)) for run, paths in places.items()}


def write_keys(keys: Mapping[str, str], root: Path) -> None:
    """Note which record of each run counts now, by the run's path, in results/<study>/keys.json."""
    text = json.dumps(dict(sorted(keys.items())), indent=0)
    path = root / KEYS
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_atomically(text, path)


def read_keys(root: Path) -> dict[str, str]:
    """Return what `write_keys` noted; empty where there is nothing readable."""
    try:
        return parse_keys((root / KEYS).read_bytes())
    except OSError:
        return {}


def parse_keys(content: bytes) -> dict[str, str]:
    """The content of a keys.json, which may come from elsewhere; empty where it is none."""
    try:
        noted = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return {str(run): str(key) for run, key in noted.items()} if isinstance(noted, dict) else {}


def _counting(paths: list[Path], key: str | None) -> Path:
    current = [path for path in paths if path.parent.name == key]
    return (current or paths)[0] if len(current or paths) == 1 else max(paths, key=_file_ended)


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
