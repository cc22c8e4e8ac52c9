"""Read and write records: each file is replaced as a whole; a record from another machine is checked before use."""

import re
from math import isclose
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError

from whichdevice.cells import Run, parse_run
from whichdevice.config.model import LONGEST_NAME, NAME, DeviceKind
from whichdevice.errors import StudyError
from whichdevice.files import write_atomically
from whichdevice.records.schema import SCHEMA_VERSION, Generated, Machine, Part, Record, Request

RECORD = "record.json"
MOST_BYTES = 32 * 2**20  # of a record; one of a long run is some 100 kB
MOST_ARTEFACT_BYTES = 2**30
NAMED = re.compile(NAME)
RECORD_KEY = re.compile(r"[0-9a-f]{12}")  # of a record: the folder between r<repeat> and record.json
FILE = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9_.=-]*")
SAME = 1e-6  # as a share: how far a derived number may be from what its windows give
AnyRecord = TypeVar("AnyRecord", bound=BaseModel)


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
    """What in a record cannot be trusted; None where all can. `run` is the run that its path names, if any."""
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
    if record.generated is not None and (found := _edited_prefill(record.asked, record.generated)) is not None:
        return found
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


def _edited_prefill(asked: Request, generated: Generated) -> str | None:
    """As `edited`, of the prompt's windows."""
    prefill = generated.prefill
    steps, seconds = sum(steps for steps, _ in prefill.windows), sum(took for _, took in prefill.windows)
    if steps < 1 or seconds <= 0:
        return "a prefill without steps or time"
    rate = asked.batch_size * generated.prompt * steps / seconds
    for name, given in (("step_time", seconds / steps), ("throughput", rate)):
        stated = getattr(prefill, name)
        if stated is not None and not isclose(stated, given, rel_tol=SAME):
            return f"prefill.{name} is {stated:.6g}, its windows give {given:.6g}"
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
    """What lies in the place of a record from elsewhere that was refused: the reason, and nothing of the record."""

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
        first = error.errors(include_url=False)[0]
        place = " ".join(".".join(str(part) for part in first["loc"]).split())[:100] or "the file"
        reason = first["msg"].removeprefix("Value error, ")
        hint = "" if place == "schema_version" else "; delete it to make it anew"
        raise StudyError(f"record {path} is not readable as {schema}: {place}: {reason}{hint}") from error
