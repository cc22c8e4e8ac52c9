"""What a forecast says of one device, as plain data: for the command, the table and a script of somebody else."""

from typing import Any

from whichdevice.errors import StudyError
from whichdevice.forecast.joint import INTERVAL
from whichdevice.forecast.targets import Target, find_target
from whichdevice.forecast.time_model import MEASURED_HOST_SD, forecast_step
from whichdevice.forecast.work import Work
from whichdevice.records.products import CompiledRecord, ProgramRequest


def answer(record: CompiledRecord) -> dict[str, Any]:
    """The row of a compiled program: memory from its facts, time from its work. Seconds and bytes; None: not known.

    A program that does not fit a GPU still has the time that its step would take with more memory.
    """
    asked, facts = record.asked, record.facts
    target = find_target(asked.device, asked.devices)
    row = without_answer(asked, record.status, record.reason, target)
    row["program_device"] = record.program_device
    if facts is not None:
        row |= {
            "memory_bytes": facts.memory_needed,
            "memory_available_bytes": facts.memory_available,
            "memory_is_lower_bound": facts.memory_is_lower_bound,
            "fits": None if facts.memory_needed is None else facts.memory_missing is None,
            "memory_tight": facts.memory_tight,
            "memory_parts": facts.memory_parts or None,
            "changes": [each.model_dump() for each in facts.changes],
            "way": facts.way,
            "largest_batch": facts.largest_batch,
            "largest_batch_reason": facts.largest_batch_reason,
            "operations": facts.operations,
            "bytes": facts.nbytes,
            "kernels": facts.kernels,
            "unit": facts.unit,
            "compile_seconds": facts.compile_seconds,
        }
    if record.work is not None:
        try:
            row |= _time(record, target)
        except StudyError as error:
            row |= {"status": "failed", "reason": str(error)}
    return row


def _time(record: CompiledRecord, target: Target) -> dict[str, Any]:
    asked, facts = record.asked, record.facts
    work = Work.from_dict(record.work or {})
    host = (facts.host_time, MEASURED_HOST_SD) if facts is not None and facts.host_time else None
    found = forecast_step(work, target.row, asked.mode, asked.devices, host)
    units = facts.units_per_step if facts is not None else None
    return {
        "step_time": found.seconds,
        "step_time_low": found.low,
        "step_time_high": found.high,
        "throughput": units / found.seconds if units and found.seconds else None,
        "device_time": found.device_time,
        "software": found.software,
        "family": found.family,
        "chip": found.chip,
        "log_sd_shared": found.log_sd_shared,
        "log_sd_own": found.log_sd_own,
        "host_time": found.host_time,
        "host_log_sd": found.host_log_sd,
        "case": {
            "device": "known" if found.known_device else "unknown",
            "family": "known" if found.known_family else "unknown",
            "model": found.family,
            "note": "; ".join(filter(None, [found.note, facts.note if facts is not None else None])),
        },
    }


def without_answer(
    asked: ProgramRequest, status: str, reason: str | None, target: Target | None = None
) -> dict[str, Any]:
    """A row of which only the question is known, and why."""
    return {
        "device": asked.device,
        "slice": target.slice.name if target is not None and target.slice is not None else None,
        "gpus": asked.devices,
        "workload": asked.workload,
        "precision": asked.precision,
        "batch": asked.batch_size,
        "mode": asked.mode,
        "sequence_length": asked.sequence_length,
        "status": status,
        "reason": reason,
        "evidence": "forecast",
        "step_time": None,
        "step_time_low": None,
        "step_time_high": None,
        "interval": INTERVAL,
        "device_time": None,
        "software": None,
        "family": None,
        "chip": None,
        "log_sd_shared": None,
        "log_sd_own": None,
        "host_time": None,
        "host_log_sd": None,
        "throughput": None,
        "unit": None,
        "memory_bytes": None,
        "memory_available_bytes": None,
        "memory_is_lower_bound": None,
        "fits": None,
        "memory_tight": False,
        "memory_parts": None,
        "changes": [],
        "way": None,
        "largest_batch": None,
        "largest_batch_reason": None,
        "operations": None,
        "bytes": None,
        "kernels": None,
        "compile_seconds": None,
        "program_device": None,  # another card, whose program this is
        "case": None,
    }
