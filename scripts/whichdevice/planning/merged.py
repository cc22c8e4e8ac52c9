"""Merged records in a call of the workflow: which of them count, and the devices that they bring."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from whichdevice.cells import Run
from whichdevice.config.model import Call, Device, Study
from whichdevice.errors import one_line
from whichdevice.records.results_folder import MergedDevice, MergedSource, merged_records, merged_sources

FETCHED = "its records were fetched; nothing is measured here"
ELSEWHERE = "measured elsewhere; its records were merged"


@dataclass(frozen=True)
class Merged:
    """The merged records of a call."""

    records: dict[Run, Path] = field(default_factory=dict)  # a record of this machine counts before
    absent: dict[str, str] = field(default_factory=dict)  # device: why it is never measured here
    notes: list[str] = field(default_factory=list)  # one line each for the person who calls
    fetched: bool = False  # a published study that is only shown here


def with_merged(call: Call) -> tuple[Call, Merged]:
    """The call with the devices of merged records among its own, and the merged records that count.

    A pure function of the config and of results/<study>: no network, nothing written.
    """
    root = Path(call.root)
    sources = merged_sources(root)
    if not sources:
        return call, Merged()
    devices = dict(call.devices)
    absent: dict[str, str] = {}
    for source in sources.values():
        for name, device in source.devices.items():
            devices.setdefault(name, _device(device))
            if device.elsewhere:
                absent[name] = ELSEWHERE
    call = call.model_copy(update={"devices": devices})
    records: dict[Run, Path] = {}
    left_out: Counter[str] = Counter()
    for run, path in merged_records(root).items():
        source = next(source for folder, source in sources.items() if path.is_relative_to(folder))
        if (why := _unlike(call, run, source)) is None:
            records[run] = path
        else:
            left_out[why] += 1
    fetched = any(source.fetched for source in sources.values())
    if fetched:
        absent = dict.fromkeys(devices, FETCHED)
    notes = [f"merged: {count} records left out: {why}" for why, count in left_out.items()]
    return call, Merged(records, absent, notes, fetched)


def _device(merged: MergedDevice) -> Device:
    return Device(
        kind=merged.kind, replicas=merged.replicas, hardware=merged.hardware, usd_per_hour=merged.usd_per_hour
    )


def _unlike(study: Study, run: Run, source: MergedSource) -> str | None:
    """Why a merged record is not of a workload and a device of this study."""
    name = run.cell.workload
    workload, device, there = study.workloads.get(name), study.devices[run.cell.device], source.workloads.get(name)
    if workload is None:
        return f"this study has no workload {name}"
    own = workload.module or name
    if there is not None and PurePosixPath(own).name != PurePosixPath(there).name:
        return f"workload {name} is {one_line(there[:80])} there and {own} here"
    other = source.devices[run.cell.device]
    if (other.kind, other.replicas) != (device.kind, device.replicas):
        return (
            f"{run.cell.device} is {other.kind} with {other.replicas} replicas there and {device.kind} with "
            f"{device.replicas} here; merge again with --rename {other.name}=NAME"
        )
    return None
