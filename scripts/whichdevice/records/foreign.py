"""Records that may have come from elsewhere: taken for nothing until every name in them has been checked."""

import re
from math import isclose
from typing import get_args

from pydantic import ValidationError

from whichdevice.cells import Run, parse_run
from whichdevice.config.model import DeviceKind
from whichdevice.config.section import LONGEST_NAME, NAME
from whichdevice.errors import StudyError
from whichdevice.records.schema import Record

RECORD = "record.json"
MOST_BYTES = 32 * 2**20  # of a record; one of a long run is some 100 kB
MOST_ARTEFACT_BYTES = 2**30
NAMED = re.compile(NAME)
SAME = 1e-6  # as a share: how far a derived number may be from what its windows give
KEY = re.compile(r"[0-9a-f]{12}")  # of a record: the folder between r<repeat> and record.json
FILE = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9_.=-]*")


def foreign_run(name: str) -> Run | None:
    """The run that a record's path names, or None where it is not exactly what a run of ours is called.

    The path ends in <device>/<workload>/<cell>/r<repeat>/record.json, with or without the record's key before the file.
    """
    *folders, file = name.split("/")
    if folders and KEY.fullmatch(folders[-1]):
        folders.pop()
    path = "/".join(folders[-4:])
    if file != RECORD or len(folders) < 4:
        return None
    try:
        run = parse_run(path)
    except StudyError:
        return None
    named = all(NAMED.fullmatch(part) and len(part) <= LONGEST_NAME for part in (run.cell.device, run.cell.workload))
    known = run.cell.loop in ("epoch", "fit") and run.path == path
    return run if named and known else None


def foreign_record(content: bytes, run: Run, where: str) -> Record:
    """The record of `run`; raises StudyError naming `where` if it is unreadable, of another run or names odd files."""
    if len(content) > MOST_BYTES:
        raise StudyError(f"{where}: {len(content) / 1e6:.0f} MB is no record")
    try:
        record = Record.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = " ".join(".".join(str(part) for part in first["loc"]).split())[:100] or "the file"
        raise StudyError(f"{where}: unreadable: {place}: {first['msg'].removeprefix('Value error, ')}") from None
    if (why := why_refused(record, run)) is not None:
        raise StudyError(f"{where}: {why}")
    return record


def why_refused(record: Record, run: Run | None) -> str | None:
    """What in a record cannot be trusted; None where all can. `run` is that of its path, if that names one."""
    if record.asked.kind not in get_args(DeviceKind):
        return f"asked.kind {record.asked.kind[:40]!r} is no kind of device"
    for name, artefact in record.artefacts.items():
        if not _is_plain(artefact.file):
            return f"artefact {name[:40]!r} is no file beside the record"
    if run is not None and (why := _of_another_run(record, run)) is not None:
        return why
    what = edited(record)
    return None if what is None else f"was edited: {what}"


def _of_another_run(record: Record, run: Run) -> str | None:
    named = vars(run.cell)
    said = {axis: getattr(record.asked, axis) for axis in named}
    if record.run != run.path or said != named or record.asked.repeat != run.repeat:
        return "says that it is of another run than its path"
    return None


def edited(record: Record) -> str | None:
    """Which derived number of steady state is not what its windows give; None where all are."""
    steady, facts = record.steady, record.workload
    if not steady.windows:
        return None
    steps, seconds = sum(steps for steps, _ in steady.windows), sum(took for _, took in steady.windows)
    if steps < 1 or seconds <= 0:
        return "a window without steps or time"
    step_time = seconds / steps
    derived: dict[str, tuple[float | None, float | None]] = {
        "steps": (steady.steps, steps),
        "seconds": (steady.seconds, seconds),
        "step_time": (steady.step_time, step_time),
        "throughput": (steady.throughput, record.asked.batch_size / step_time if record.asked.mode else None),
    }
    if facts is not None:
        rate = None if facts.flops_per_step is None else facts.flops_per_step / step_time
        epoch = facts.steps_per_epoch * step_time if facts.steps_per_epoch else None
        derived |= {"flops_per_second": (steady.flops_per_second, rate), "epoch_time": (steady.epoch_time, epoch)}
    for name, (stated, given) in derived.items():
        if stated is not None and given is not None and not isclose(stated, given, rel_tol=SAME):
            return f"steady.{name} is {stated:.6g}, its windows give {given:.6g}"
    return None


def on_device(record: Record, device: str) -> Record:
    """The record under another name of its device."""
    run = "/".join([device, *record.run.split("/")[1:]])
    return record.model_copy(update={"run": run, "asked": record.asked.model_copy(update={"device": device})})


def _is_plain(file: str) -> bool:
    parts = file.split("/")
    return len(file) < 300 and RECORD not in parts and all(FILE.fullmatch(part) for part in parts)
