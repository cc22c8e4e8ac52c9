"""Bring the records that a config names from results of other machines, below results/<study>/merged/<id>.

Each record is checked alone, and written under its device's name in this study. Only records come: no file beside them
is read, and nothing of them is run.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import cast

from whichdevice.base.errors import StudyError, did_you_mean
from whichdevice.base.files import WORKFLOW, write_changed
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.measure.machine.facts import this_machine
from whichdevice.measure.record import Machine, Record
from whichdevice.study.cells import Run
from whichdevice.study.config.load import parse_study
from whichdevice.study.config.model import Call, Device, DeviceKind
from whichdevice.study.planning.devices import detect
from whichdevice.study.records.store import (
    CONFIG,
    KEYS,
    MAX_RECORD_BYTES,
    OWN,
    RECORD,
    SOURCE,
    MergedDevice,
    MergedSource,
    describe_machine,
    ended,
    foreign_record,
    foreign_run,
    merged_sources,
    on_device,
    parse_keys,
    read_record,
    same_machine,
    source_folder,
)
from whichdevice.study.remote.transfer import Listing, Place, explained, open_place, side_by_side


def bring_records(call: Call) -> list[str]:
    """Bring what `records` names; a second time what has changed since. Returns the lines to print.

    A record that is broken, of a newer schema or of another run than its path names is left out, and a line says so.
    Raises StudyError where a source cannot be read, or a name means another device there than here.
    """
    lines, devices = [], set[str]()
    for address in call.records:
        shipped = WORKFLOW / address
        place = open_place(shipped if not Path(address).exists() and shipped.is_dir() else address)
        listing = place.listing()
        with explained(place.address):
            contents = _contents(place, listing)
        devices |= {run.cell.device for run in contents}
        lines += _bring(call, address, contents, _devices(place, listing))
    for device in call.rename if call.records else ():
        if device not in devices:
            raise StudyError(f"records: rename: no source has a device {device}{did_you_mean(device, devices)}")
    return lines


def _contents(place: Place, listing: Listing) -> dict[Run, bytes]:
    """The record of each run: the source's own before one that it brought itself, else the one that ended last.

    Among several of a run, keys.json there names the one that counts, as the settings may have been changed back.
    """
    names: dict[Run, list[str]] = {}
    for name, facts in listing.items():
        if int(facts["size"]) <= MAX_RECORD_BYTES and (run := foreign_run(name)) is not None:
            names.setdefault(run, []).append(name)
    several = any(len(places) > 1 for places in names.values())
    keys = parse_keys(place.read(KEYS)) if several and _is_small(listing, KEYS) else {}

    def content(run: Run) -> bytes:
        of_source = [name for name in names[run] if name.startswith(f"{OWN}/")] or names[run]
        counting = [name for name in of_source if PurePosixPath(name).parent.name == keys.get(run.path)] or of_source
        return max(map(place.read, counting), key=ended)

    return dict(zip(names, side_by_side(content, names), strict=True))


def _devices(place: Place, listing: Listing) -> dict[str, Device]:
    """The devices of the source's config, whose sheet rows and prices its records lack; none where it is unreadable."""
    if not _is_small(listing, CONFIG):
        return {}
    try:
        return parse_study(place.read(CONFIG).decode("utf-8", "replace"), CONFIG).devices
    except StudyError:
        return {}


def _is_small(listing: Listing, name: str) -> bool:
    return name in listing and int(listing[name]["size"]) <= MAX_RECORD_BYTES


def _bring(call: Call, address: str, contents: Mapping[Run, bytes], configured: Mapping[str, Device]) -> list[str]:
    """Write what is sound of one source; the lines to print."""
    records, faults, names = dict[Run, Record](), list[str](), dict[str, str]()
    for run_there, content in contents.items():
        device = run_there.cell.device
        name = call.rename.get(device, device)
        if names.setdefault(name, device) != device:
            raise StudyError(f"records: {address}: after renaming, {name} is two devices; rename both apart")
        try:
            record = foreign_record(content, run_there, run_there.path)
        except StudyError as error:
            faults.append(str(error))
        else:
            records[Run(replace(run_there.cell, device=name), run_there.repeat)] = on_device(record, name)
    if not records:
        raise StudyError(f"records: no sound {RECORD} of a run below {address}{f': {faults[0]}' if faults else ''}")
    folder = source_folder(Path(call.root), address)
    hardware, source = hardware_rows(), MergedSource()
    for run, record in sorted(records.items(), key=lambda item: item[1].ended):  # the newest one counts
        name, asked = run.cell.device, record.asked
        settings = configured.get(names[name], Device(kind="cpu"))
        source.workloads[asked.workload] = asked.module
        source.devices[name] = MergedDevice(
            kind=cast(DeviceKind, asked.kind),  # checked with the record
            replicas=asked.replicas,
            hardware=settings.hardware if settings.hardware in hardware else None,
            usd_per_hour=settings.usd_per_hour,
            machine=record.machine,
        )
    for name, merged in source.devices.items():
        here = _is_here(call, name)
        _check_machine(call, folder, name, names[name], merged.machine, address, here)
        merged.elsewhere = not here and not (call.run_on == "all" and name in call.devices)
    _write(folder, records, source)
    counts = Counter(run.cell.device for run in records)
    words = [f"{count} of {name}" + f" ({names[name]} there)" * (names[name] != name) for name, count in counts.items()]
    left_out = [f"records of {address}: {len(faults)} left out; the first: {faults[0]}"] if faults else []
    return [f"records of {address}: {', '.join(words)}; to leave them out again, delete {folder}", *left_out]


def _write(folder: Path, records: Mapping[Run, Record], source: MergedSource) -> None:
    """Write what has changed, source.json after the records that it describes, and delete what is no longer there."""
    paths = {folder / OWN / run.path / RECORD: record for run, record in records.items()}
    for path, record in paths.items():
        write_changed(record.model_dump_json(indent=1), path)
    write_changed(source.model_dump_json(indent=1), folder / SOURCE)
    for stale in {*(folder / OWN).rglob(RECORD)} - paths.keys():
        stale.unlink()


def _is_here(call: Call, name: str) -> bool:
    """Whether this host measures the study's device of this name itself."""
    if call.run_on == "all" or name not in call.devices or (call.run_on != "auto" and name not in call.run_on):
        return False
    return detect({name: call.devices[name]})[name] is None


def _check_machine(
    call: Call, folder: Path, name: str, there: str, machine: Machine, address: str, here: bool
) -> None:
    """Raise StudyError where the study has a device of this name on another machine already."""
    root = Path(call.root)
    known = [this_machine()] if here else []
    known += [read_record(path).machine for path in sorted((root / OWN / name).rglob(RECORD))[:1]]
    others = [source for path, source in merged_sources(root).items() if path != folder]
    known += [source.devices[name].machine for source in others if name in source.devices]
    for other in known:
        models = {machine.device_name, other.device_name} - {None}
        if len(models) > 1 or not same_machine(machine, other):
            words = f"{_words(machine)}; here: {_words(other)}"
            way_out = f"give it another name: --rename {there}={there}_2"
            raise StudyError(f"records: {there} of {address} was measured on another machine ({words}); {way_out}")


def _words(machine: Machine) -> str:
    model = f", {machine.device_name}" if machine.device_name and machine.device_name != machine.cpu else ""
    return f"{describe_machine(machine)}{model}"
