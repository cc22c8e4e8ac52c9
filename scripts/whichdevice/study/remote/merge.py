"""Records of another machine: brought below results/<study>/merged, checked, and under their devices' names here."""

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, cast

from whichdevice.base.errors import StudyError, did_you_mean
from whichdevice.base.files import write_atomically
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.measure.machine.facts import this_machine
from whichdevice.measure.record import Record
from whichdevice.study.cells import Run
from whichdevice.study.config.load import parse_yaml, read_study, write_study
from whichdevice.study.config.model import Device, DeviceKind, Study
from whichdevice.study.planning.devices import detect
from whichdevice.study.records.store import (
    CONFIG,
    KEYS,
    MAX_ARTEFACT_BYTES,
    MAX_RECORD_BYTES,
    MERGED,
    OWN,
    RECORD,
    RECORD_KEY,
    SOURCE,
    MergedDevice,
    MergedRecord,
    MergedSource,
    Refused,
    ended,
    find_clash,
    foreign_record,
    foreign_run,
    measured_elsewhere,
    merged_sources,
    on_device,
    parse_keys,
    read_record,
    record_path,
    write_record,
)
from whichdevice.study.remote.transfer import Listing, Place, download, explained, open_place, side_by_side

MADE_OF = ("size", "crc32c", "md5Hash", "CRC", "generation", "mtime")  # of an object: what changes with it


def merge_folder(
    study_root: Path, source: Path | str, rename: Mapping[str, str], study: Study | None = None, fetched: bool = False
) -> list[str]:
    """Bring the records of another results folder, its .zip or its address below `merged/<id>`; the lines to print.

    `rename`: a device's name there and here; empty keeps the names of the last merge. `study`: the study that they go
    to, by default the one of its config.yaml. `fetched`: they are all that this study has. A second merge brings what
    changed. Raises StudyError, with nothing changed, where the source cannot be read or a device there differs from
    the one of its name here.
    """
    place = open_place(source)
    if study is None and not fetched and (study_root / CONFIG).is_file():
        study = read_study(study_root / CONFIG)
    folder = study_root / MERGED / source_id(place)
    before = merged_sources(study_root).get(folder, MergedSource())
    renamed = dict(rename) or {device.name: name for name, device in before.devices.items() if device.name != name}
    merge = _Merge(study_root, study, place, place.listing(), folder, before, renamed)
    named = merge.named()
    merge.check_names(sorted({run.cell.device for run in named}))
    try:
        with explained(place.address):
            brought, lines = _of_one_kind(side_by_side(merge.bring, named.items()))
        after = merge.described(brought, fetched)
        here = dict.fromkeys(merge.measured_here(after), this_machine())
        machines = {arrived.run: arrived.record.machine for arrived in brought if arrived.record}
        if clash := find_clash(study_root, folder, after, study.devices if study else {}, machines, here):
            name, why, free = clash
            way_out = f"give it another name: --rename {after.devices[name].name}={free}"
            raise StudyError(f"merge: {name} of {place.address} {why}; {way_out}")
        changed = merge.replace(after)
    finally:
        shutil.rmtree(merge.stage, ignore_errors=True)
        _remove_empty(folder.parent)
    if not changed:
        return [f"merged {place.address}: nothing new ({folder.name})", *lines]
    names = [name if name == device.name else f"{name} ({device.name} there)" for name, device in after.devices.items()]
    undo = f"to undo it: python -m whichdevice merge --drop {folder.name}"
    return [f"merged {place.address}: {len(brought)} records of {', '.join(names)}; {undo}", *lines]


def drop(study_root: Path, name: str) -> None:
    """Delete a source's records, which count no more; the devices that it brought leave the study's config.yaml."""
    sources = {folder.name: source for folder, source in merged_sources(study_root).items()}
    if name not in sources:
        raise StudyError(f"merge: {study_root} has no merged source {name}{did_you_mean(name, sources)}")
    (study_root / MERGED / name / SOURCE).unlink()
    shutil.rmtree(study_root / MERGED / name, ignore_errors=True)
    _remove_empty(study_root / MERGED)
    if (config := study_root / CONFIG).is_file():
        study = read_study(config)
        gone = {device for device, facts in sources[name].devices.items() if facts.elsewhere}
        if left := {device: settings for device, settings in study.devices.items() if device not in gone}:
            write_study(study.model_copy(update={"devices": left}), config)


def source_id(place: Place) -> str:
    """Folder of a source's records here: no address, as that may name a project or a person."""
    address = str(Path(place.root).resolve()) if place.protocol in ("file", "local") else place.address
    return hashlib.sha256(address.encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Brought:
    """A record of a source."""

    run: Run  # under the device's name here
    device: str  # its name there
    entry: MergedRecord
    record: Record | None  # None: refused, and the tables say why


@dataclass(frozen=True)
class _Merge:
    root: Path
    study: Study | None
    place: Place
    listing: Listing
    folder: Path
    before: MergedSource
    rename: Mapping[str, str]

    @property
    def stage(self) -> Path:
        """The folder where files wait until all of them are checked."""
        return self.folder.with_name(f".{self.folder.name}.{os.getpid()}")

    def named(self) -> dict[Run, list[str]]:
        """Records by their runs; of a whole results folder its own and, of other runs, those that it merged itself."""
        names = [name for name in self.listing if name.rpartition("/")[2] == RECORD]
        ours, merged = f"{OWN}/", f"{MERGED}/"
        if any(name.startswith((ours, merged)) for name in names):
            sources = [name.removesuffix(SOURCE) for name in self.listing if name.endswith(f"/{SOURCE}")]
            folders = (ours, *(source for source in sources if source.startswith(merged)))
            names = [name for name in names if name.startswith(folders)]
        by_run: dict[Run, list[str]] = {}
        for name in names:
            if (run := foreign_run(name)) is not None:
                by_run.setdefault(run, []).append(name)
        if not by_run:
            raise StudyError(f"merge: no {RECORD} of a run below {self.place.address}")
        by_run = {
            run: [name for name in several if name.startswith(ours)] or several for run, several in by_run.items()
        }
        keys = self._keys() if len(by_run) < sum(map(len, by_run.values())) else {}
        return {
            run: [name for name in several if PurePosixPath(name).parent.name == keys.get(run.path)] or several
            for run, several in by_run.items()
        }

    def _keys(self) -> dict[str, str]:
        """Which of several records of a run counts there: the one of its last call's config and code."""
        if KEYS not in self.listing or int(self.listing[KEYS]["size"]) > MAX_RECORD_BYTES:
            return {}
        return parse_keys(self.place.read(KEYS))

    def check_names(self, devices: list[str]) -> None:
        """Every renamed device exists there, and no two devices have one name afterwards."""
        where = self.place.address
        for device in self.rename:
            if device not in devices:
                raise StudyError(f"merge: rename: {where} has no device {device}{did_you_mean(device, devices)}")
        names = [self.rename.get(device, device) for device in devices]
        if twice := [name for name in names if names.count(name) > 1]:
            raise StudyError(f"merge: {where}: after renaming, {twice[0]} is two devices; rename both apart")

    def bring(self, item: tuple[Run, list[str]]) -> Brought:
        """A run's record: the one here where the source has no other or an earlier one, else the new one, staged."""
        there, names = item
        device = there.cell.device
        run = Run(replace(there.cell, device=self.rename.get(device, device)), there.repeat)
        version = _version([self.listing[name] for name in names])
        known = self.before.records.get(run.path)
        old = _read(record_path(self.folder / OWN, run, known.key)) if known else None
        kept = Brought(run, device, known, old) if known and old else None
        if kept and version and kept.entry.version == version:
            return kept
        for name in names:
            if (size := int(self.listing[name]["size"])) > MAX_RECORD_BYTES:
                raise StudyError(f"{self.place.address}/{name}: {size / 1e6:.0f} MB is no record")
        contents = {name: self.place.read(name) for name in names}
        name = max(names, key=lambda name: ended(contents[name]))
        parent = PurePosixPath(name).parent.name
        entry = MergedRecord(key=parent if RECORD_KEY.fullmatch(parent) else None, version=version)
        path = record_path(self.stage / OWN, run, entry.key)
        try:
            record = foreign_record(contents[name], there, there.path)
        except StudyError as error:  # the reason takes the record's place, and nothing of the record
            write_atomically(Refused(refused=str(error)).model_dump_json(), path)
            return Brought(run, device, entry, None)
        if kept and old and old.ended > record.ended:
            return kept
        self._bring_artefacts(name, record, path.parent)
        write_record(on_device(record, run.cell.device), path)
        return Brought(run, device, entry, _light(record))

    def _bring_artefacts(self, name: str, record: Record, folder: Path) -> None:
        """The files beside a record that are what it says; without them it still counts."""
        beside = {f"{name.removesuffix(RECORD)}{artefact.file}": artefact for artefact in record.artefacts.values()}
        files = {file: folder / beside[file].file for file in beside if file in self.listing}
        small = {file: path for file, path in files.items() if int(self.listing[file]["size"]) <= MAX_ARTEFACT_BYTES}
        download(self.place, small, self.listing)
        for file, path in small.items():
            if hashlib.sha256(path.read_bytes()).hexdigest() != beside[file].sha256:
                path.unlink()

    def described(self, brought: list[Brought], fetched: bool) -> MergedSource:
        """Return what source.json says of these records, of which the first ones are the newest."""
        settings = self._settings()
        source = MergedSource(fetched=fetched)
        for arrived in brought:
            source.records[arrived.run.path] = arrived.entry
            if arrived.record is None:
                continue
            asked, name, machine = arrived.record.asked, arrived.run.cell.device, arrived.record.machine
            source.workloads.setdefault(asked.workload, asked.module)
            if name not in source.devices:
                configured = name == arrived.device and self.study is not None and name in self.study.devices
                source.devices[name] = MergedDevice(
                    name=arrived.device,
                    kind=cast(DeviceKind, asked.kind),  # checked with the record
                    replicas=asked.replicas,
                    elsewhere=self.before.devices[name].elsewhere if name in self.before.devices else not configured,
                    **settings.get(arrived.device, {}),
                )
            model, models = machine.cpu if asked.kind == "cpu" else machine.device_name, source.devices[name].models
            if model and model not in models:
                models.append(model)
        return source

    def _settings(self) -> dict[str, dict[str, Any]]:
        """Return the row of the hardware sheet and the price of each device of the source's config."""
        if CONFIG not in self.listing or int(self.listing[CONFIG]["size"]) > MAX_RECORD_BYTES:
            return {}
        try:
            values = parse_yaml(self.place.read(CONFIG).decode("utf-8", "replace"), CONFIG)
            given = {str(name): dict(settings) for name, settings in values["devices"].items()}
        except (StudyError, TypeError, KeyError, AttributeError, ValueError):
            return {}
        records = {}
        for name, settings in given.items():
            with suppress(ValueError):
                device = Device(
                    kind="cpu", hardware=settings.get("hardware"), usd_per_hour=settings.get("usd_per_hour")
                )
                hardware = device.hardware if device.hardware in hardware_rows() else None
                records[name] = {"hardware": hardware, "usd_per_hour": device.usd_per_hour}
        return records

    def measured_here(self, source: MergedSource) -> set[str]:
        """Names of the source's devices that this host measures itself."""
        if self.study is None or self.study.run_on == "all":
            return set()
        away = measured_elsewhere(self.root) | {name for name, device in source.devices.items() if device.elsewhere}
        named = self.study.devices.keys() if self.study.run_on == "auto" else set(self.study.run_on)
        here = {name: device for name, device in self.study.devices.items() if name in source.devices.keys() - away}
        return {name for name, reason in detect(here).items() if reason is None and name in named}

    def replace(self, source: MergedSource) -> bool:
        """Put staged files in their places, then source.json, then delete what counts no more; whether any changed."""
        write_atomically(source.model_dump_json(indent=1), self.stage / SOURCE)
        staged = [path for path in self.stage.rglob("*") if path.is_file() and path != self.stage / SOURCE]
        changed = False
        for path in [*staged, self.stage / SOURCE]:
            target = self.folder / path.relative_to(self.stage)
            if not target.is_file() or target.read_bytes() != path.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, target)
                changed = True
        for stale in {*(self.folder / OWN).rglob(RECORD)} - {*source.paths(self.folder).values()}:
            shutil.rmtree(stale.parent) if RECORD_KEY.fullmatch(stale.parent.name) else stale.unlink()
        return changed


def _of_one_kind(brought: list[Brought]) -> tuple[list[Brought], list[str]]:
    """The records, newest first, and a line for each device that is now of another kind: its records are left out."""
    newest: dict[str, tuple[str, int]] = {}
    counted, left_out = [], Counter[str]()
    for item in sorted(brought, key=lambda item: item.record.ended.timestamp() if item.record else 0.0, reverse=True):
        if item.record is not None:
            kind = item.record.asked.kind, item.record.asked.replicas
            if kind != (now := newest.setdefault(item.device, kind)):
                left_out[f"newer records of {item.device} there are of {now[0]} with {now[1]} replicas"] += 1
                continue
        counted.append(item)
    return counted, [f"{count} records left out: {why}" for why, count in left_out.items()]


def _version(objects: list[Mapping[str, Any]]) -> str:
    """Return what changes when one of the objects does; empty where the file system does not say."""
    known = [[facts.get(key) for key in MADE_OF] for facts in objects]
    if any(not any(values[1:]) for values in known):
        return ""
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _read(path: Path) -> Record | None:
    try:
        return _light(read_record(path))
    except StudyError:
        return None


def _light(record: Record) -> Record:
    """The record without what takes the memory of many."""
    return record.model_copy(update={"steady": None, "epochs": [], "results": {}, "attempts": []})
