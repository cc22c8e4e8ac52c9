"""List the records in a study's results: its own below `runs`, other machines' below `merged/<id>`.

`merged/<id>/source.json` says which records of a source count and what its devices are. It is written last, so a reader
meets what one whole merge brought. Reading changes nothing.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints, ValidationError

from whichdevice.cells import Run
from whichdevice.config.model import Device, DeviceKind
from whichdevice.errors import StudyError, one_line
from whichdevice.files import write_atomically
from whichdevice.records.schema import Integer, Machine, Part
from whichdevice.records.store import RECORD, describe_machine, foreign_run, same_machine

OWN, MERGED, SOURCE, CONFIG = "runs", "merged", "source.json", "config.yaml"
KEYS = "keys.json"  # of the last call: which record of each run counts
Key = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]


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
        found = {foreign_run(f"{name}/{RECORD}"): record.key for name, record in self.records.items()}
        return {run: record_path(folder / OWN, run, key) for run, key in found.items() if run is not None}


def record_path(runs: Path, run: Run, key: str | None = None) -> Path:
    """Where the record of a run is below a folder of runs, with the folder of its key where it has one."""
    return runs / run.path / (key or "") / RECORD


def merged_sources(root: Path) -> dict[Path, MergedSource]:
    """The merged sources of results/<study> by their folders; raises StudyError where one cannot be read."""
    found = {}
    for path in sorted((root / MERGED).glob(f"[!.]*/{SOURCE}")):
        try:
            found[path.parent] = MergedSource.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            raise StudyError(f"cannot read {path}: delete {path.parent} and merge again") from None
    return found


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
    taken = {*own, *source.devices, *(name for other in others.values() for name in other.devices)}

    def clash(name: str, why: str) -> tuple[str, str, str]:
        names = (f"{source.devices[name].name}_{number}" for number in count(2))
        return name, why, next(free for free in names if free not in taken)

    for name, device in source.devices.items():
        known = [other.devices[name] for other in others.values() if name in other.devices]
        keys = ["kind", "replicas", *(["hardware"] if name == device.name else [])]
        for same_name in [*([own[name]] if name in own else []), *known]:
            for key in keys:
                pair = getattr(device, key), getattr(same_name, key)
                if pair[0] != pair[1] and None not in pair:
                    return clash(name, f"has {key} {pair[0]} there and {pair[1]} here")
        for there in known:
            if device.models and there.models and not {*device.models} & {*there.models}:
                models = [one_line(models[0][:80]) for models in (device.models, there.models)]
                return clash(name, f"is {models[0]} there and {models[1]} in another source")
    measured: dict[Run, list[Path]] = {}
    for path, other in others.items():
        for run, record in other.paths(path).items():
            measured.setdefault(run, []).append(record)
    for run, machine in machines.items():
        name = run.cell.device
        found = [_machine(path) for path in [*(root / OWN / run.path).rglob(RECORD), *measured.get(run, [])]]
        for other_machine in [*found, measured_here.get(name)]:
            if other_machine is not None and not same_machine(machine, other_machine):
                texts = describe_machine(machine), describe_machine(other_machine)
                return clash(name, f"was measured on another machine ({texts[0]}) than here ({texts[1]})")
    return None


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
    own, keys = own_records(folder), read_keys(folder)
    current = {run: path for run, path in own.items() if path.parent.name == keys.get(run.path, path.parent.name)}
    return sorted({**own, **merged_records(folder), **current}.values())


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
    """What `write_keys` noted; empty where there is nothing readable."""
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
