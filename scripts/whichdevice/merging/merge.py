"""The records of other machines in a study: which of them count, as which devices, and which clash."""

import json
import shutil
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from whichdevice.cells import Run
from whichdevice.config.model import Call, Study
from whichdevice.config.storage import Merge
from whichdevice.errors import StudyError, one_line
from whichdevice.merging.devices import merged_device
from whichdevice.merging.likeness import Devices, free_name, renaming
from whichdevice.merging.mirror import Mirrored, mirror, read_index, record_path, source_id
from whichdevice.records.facts import Machine
from whichdevice.records.machine import same_machine, told
from whichdevice.records.results_folder import COUNTED, MERGED, counted_sources
from whichdevice.records.store import read_record, write_atomically


@dataclass
class MergedRun:
    """A record of another machine in this study."""

    path: Path
    written: int  # when, in nanoseconds
    facts: Mirrored
    merge: Merge
    kept: bool = False  # `merge` says where it lies here, and not where it came from


@dataclass
class MergedRuns:
    """Every merged run, and what a person is told of those left out."""

    runs: dict[Run, MergedRun] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def renamed(self) -> set[str]:
        """Devices that have their name from a `rename`: never this machine's."""
        return {name for merged in self.runs.values() for name in merged.merge.rename.values()}


def merge_records(call: Call, refresh: bool = True, folder: Path | None = None) -> MergedRuns:
    """Bring all records that `merge` names to `folder`; raises StudyError where two clash.

    It stands for results/<study>/merged, where the paths lie that are returned.
    """
    home = Path(call.root) / MERGED
    root = folder or home
    found, devices = MergedRuns(), Devices(call)
    for merge in call.merge:
        source = root / source_id(merge)
        left_out = _take_source(found, devices, source, mirror(merge, source, refresh), merge, call)
        found.notes += [f"merge: {merge.source}: {count} records left out: {why}" for why, count in left_out.items()]
    ids = list(dict.fromkeys(source_id(merge) for merge in call.merge))  # the first source names a device
    _tidy(root, ids)
    write_atomically(json.dumps(ids), root / COUNTED)
    for each in found.runs.values():
        each.path = home / each.path.relative_to(root)
    return found


def merge_nothing(call: Call) -> None:
    """Note that a call named no source: what was brought lies there, and counts no more."""
    path = Path(call.root) / MERGED / COUNTED
    if not path.is_file() or path.read_text(encoding="utf-8", errors="replace") != "[]":
        write_atomically("[]", path)


def kept_records(call: Call) -> MergedRuns:
    """The records of the sources that the last call named, where this one's config names none."""
    root, found, devices = Path(call.root) / MERGED, MergedRuns(), Devices(call)
    for source in counted_sources(root):
        runs = {run: facts for run, facts in read_index(source).items() if run.cell.device in call.devices}
        rename = {facts.device: run.cell.device for run, facts in runs.items() if facts.device != run.cell.device}
        merge = Merge.model_validate({"from": source.as_posix(), "rename": rename})
        _take_source(found, devices, source, runs, merge, call, kept=True)
    return found


def with_devices(call: Call, merged: MergedRuns) -> Call:
    """The call with the merged devices among its own, as ones that are never measured here."""
    devices = dict(call.devices)
    renamed = merged.renamed | {name for merge in call.merge for name in merge.rename.values()}
    for name in renamed & devices.keys():  # also where every record was left out
        devices[name] = devices[name].model_copy(update={"elsewhere": True})
    for run, each in merged.runs.items():
        name = run.cell.device
        if name not in devices and (kind := each.facts.kind) is not None:
            facts = each.facts
            devices[name] = merged_device(kind, facts.replicas, facts.hardware, facts.usd_per_hour)
    return call.model_copy(update={"devices": devices})


def without_measured_here(
    merged: MergedRuns, study: Study, absent: Mapping[str, str], host: Machine
) -> dict[Run, Path]:
    """The merged records that count: those of runs without a record of this machine.

    Raises StudyError where one is another machine's and this one has measured, or would measure, the same run.
    """
    counted: dict[Run, Path] = {}
    for run, each in merged.runs.items():
        own = Path(run.record(study))
        if own.is_file():
            try:
                machine = read_record(own).machine
            except StudyError:
                continue  # the tables say so; this machine can measure it again
            _refuse_others(run, each, machine, study, "the record here")
            continue
        if study.run_on != "all" and run.cell.device in study.devices and run.cell.device not in absent:
            _refuse_others(run, each, host, study, "this machine, which would measure it too")
        counted[run] = each.path
    return counted


def _take_source(
    found: MergedRuns,
    devices: Devices,
    folder: Path,
    runs: dict[Run, Mirrored],
    merge: Merge,
    call: Call,
    kept: bool = False,
) -> Counter[str]:
    """Add the runs of a source that belong to this study and its devices; how many do not, by the reason."""
    reasons = {run: why for run, facts in runs.items() if (why := _unlike(call, run, facts)) is not None}
    reasons |= devices.left_out({run: facts for run, facts in runs.items() if run not in reasons}, merge, kept)
    for run, facts in runs.items():
        if run not in reasons:
            path = record_path(folder, run)
            _take(found, run, MergedRun(path, path.stat().st_mtime_ns, facts, merge, kept), call)
    return Counter(reasons.values())


def _take(found: MergedRuns, run: Run, new: MergedRun, study: Study) -> None:
    """Add a merged run; of two records of one run by one machine the later one counts."""
    old = found.runs.get(run)
    if old is None or old.facts.machine is None:
        found.runs[run] = new
    elif new.facts.machine is not None and old.facts.digest != new.facts.digest:
        _refuse_others(run, new, old.facts.machine, study, f"that of {old.merge.source}")
        if read_record(new.path).ended > read_record(old.path).ended:
            found.runs[run] = new


def _refuse_others(run: Run, each: MergedRun, machine: Machine, study: Study, other: str) -> None:
    if each.facts.machine is None or same_machine(each.facts.machine, machine):
        return
    way_out = renaming(each.merge, each.kept, each.facts.device, free_name(run.cell.device, study.devices))
    raise StudyError(
        f"merge: {run.path} of {each.merge.source} is of another machine ({told(each.facts.machine)}) than {other} "
        f"({told(machine)}); {way_out}"
    )


def _unlike(study: Study, run: Run, facts: Mirrored) -> str | None:
    """Why a record does not belong to this study: a workload that it lacks, or another one of the same name."""
    workload = study.workloads.get(run.cell.workload)
    if workload is None:
        return f"this study has no workload {run.cell.workload}"
    own, other = workload.module or run.cell.workload, facts.module
    if other is not None and PurePosixPath(own).name != PurePosixPath(other).name:
        return f"workload {run.cell.workload} is {one_line(other[:80])} there and {own} here"
    return None


def _tidy(root: Path, ids: Container[str]) -> None:
    """Records of sources that are no longer merged go."""
    for folder in root.glob("*"):
        if folder.is_dir() and folder.name not in ids:
            shutil.rmtree(folder, ignore_errors=True)
