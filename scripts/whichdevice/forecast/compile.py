"""Compile one cell: everything between a request and a compiled record on disk. Imports no framework."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from whichdevice.code_hash import code_hash
from whichdevice.datasets.store import load_dataset
from whichdevice.errors import StudyError
from whichdevice.forecast.memory import OutOfDeviceMemoryError
from whichdevice.forecast.targets import HARDWARE, environment, topology_named
from whichdevice.host.affinity import thread_environment, usable_cores
from whichdevice.host.software import installed_versions
from whichdevice.locks import beside_no_measurement
from whichdevice.measuring.outside import end_from_inside
from whichdevice.measuring.supervisor import Finish, supervise_module
from whichdevice.records.compiled import CompiledRecord, CompileRequest, read_compiled, write_compiled
from whichdevice.workloads import is_file_module

CACHE = Path("results/compiled")
NEEDED = ("jax", "jaxlib", "libtpu", "keras")
KEPT = ("ok", "does_not_fit")  # statuses that a second compile would only repeat
LENGTH = 24


def compile_code_hash(module: str) -> str:
    """Hash of the code, and of the hardware sheet, that a compiled record of this workload depends on."""
    entry = "whichdevice.forecast.process"
    if is_file_module(module):
        return code_hash(entry, files=[Path(module), HARDWARE])
    return code_hash(entry, f"whichdevice.workloads.{module}", files=[HARDWARE])


def compile_cell(request: CompileRequest, dataset: Path | None, record_path: Path, log: Path) -> CompiledRecord:
    """Compile what is asked, or take it from results/compiled/ where the same was compiled before; write the record.

    Waits while a measurement runs on this host, and lets none start meanwhile; not in a scheduler's job. A step that
    fails, hangs or does not fit is a record with that status, and so is a machine without the compiler (`unavailable`).
    `dataset` is the folder of the prepared dataset whose shapes the program gets. Raises StudyError where the request
    is at fault.
    """
    topology_named(request.topology)
    checksum = load_dataset(dataset).info.checksum if dataset is not None else None
    draft = CompiledRecord(
        asked=request,
        status="failed",
        versions=compiler_versions(),
        code_hash=compile_code_hash(request.module),
        checksum=checksum,
    )
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    place = request.path
    record = _cached(draft)
    if record is None:
        with beside_no_measurement(lambda: print(f"{place}: waiting for a measurement on this host", file=sys.stderr)):
            record = _cached(draft) or _compiled(draft, dataset, log)
    write_compiled(record, record_path)
    return record


def compiler_versions() -> dict[str, str]:
    """Of the packages that compiling needs, as far as they are installed here."""
    return installed_versions(NEEDED)


def _cache_path(draft: CompiledRecord) -> Path:
    """A name made of everything that the outcome depends on: not of the workload's name or the time allowed."""
    asked = draft.asked.model_dump(mode="json", exclude={"workload", "timeout", "dataset", "module"})
    key = [asked, draft.versions, draft.code_hash, draft.checksum, draft.schema_version]
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return CACHE / f"{digest[:LENGTH]}.json"


def _cached(draft: CompiledRecord) -> CompiledRecord | None:
    """The same step, compiled before in any study, as this request names it."""
    try:
        found = read_compiled(_cache_path(draft))
    except StudyError:
        return None
    return found.model_copy(update={"asked": draft.asked})


def _compiled(draft: CompiledRecord, dataset: Path | None, log: Path) -> CompiledRecord:
    missing = [name for name in NEEDED if name not in draft.versions]
    if missing:
        return draft.model_copy(
            update={"status": "unavailable", "reason": f"not installed: {', '.join(missing)}; see docs/tpu-model.md"}
        )
    parts: dict[str, dict[str, Any]] = {}

    def on_message(message: dict[str, Any]) -> None:
        if message["event"] == "part":
            parts.setdefault(message["place"], {}).update(message["value"])
        elif message["event"] == "progress":
            print(f"{draft.asked.path}: {message['phase']}", file=sys.stderr)

    def start() -> Finish:
        parts.clear()
        return supervised(draft.asked, dataset, log, on_message)

    finish = end_from_inside(start, log, log.parent)
    status, reason = _outcome(finish, draft.asked, parts)
    record = CompiledRecord.model_validate(
        {**draft.model_dump(mode="json"), "status": status, "reason": reason, **parts}
    )
    if finish.status in KEPT:
        write_compiled(record, _cache_path(draft))
    return record


def _outcome(finish: Finish, request: CompileRequest, parts: dict[str, dict[str, Any]]) -> tuple[str, str | None]:
    """Status and reason; facts that were there before the process ended too early stay facts."""
    if finish.status in (*KEPT, "unavailable"):
        return finish.status, finish.reason
    reason = finish.reason
    if finish.status == "timed_out":
        reason = f"still compiling after compile.timeout = {request.timeout:g} s; killed"
    facts = parts.get("facts")
    if facts is None:
        return "failed", reason
    facts["largest_batch_reason"] = reason
    if facts["memory_missing"] is None:
        return "ok", None
    return "does_not_fit", str(OutOfDeviceMemoryError(facts["memory_needed"], facts["hbm_available"]))


def supervised(request: CompileRequest, dataset: Path | None, log: Path, on_message: Any) -> Finish:
    """Compile in a process of its own; facts and progress go to `on_message`."""
    variables = {**thread_environment(usable_cores()), **environment(topology_named(request.topology))}
    job = json.dumps({"request": request.model_dump(mode="json"), "dataset": str(dataset) if dataset else None})
    return supervise_module("whichdevice.forecast.process", job, variables, log, request.timeout, on_message)
