"""Make tables `runs` and `epochs`: what single runs took, and the epochs that they learned."""

import sys
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import pandas as pd

from whichdevice.base.errors import StudyError
from whichdevice.decide.measured import steady_watts
from whichdevice.measure.record import Record
from whichdevice.models.pipeline import best_and_written
from whichdevice.study.cells import Run, study_runs, workflow_command
from whichdevice.study.config.model import Study
from whichdevice.study.records.store import measured_elsewhere
from whichdevice.study.tables import makes
from whichdevice.study.tables.base import CELL, Sources, columns_of, table
from whichdevice.study.tables.decision_rule import within_process

NOT_MEASURED = "not_measured"
UNREADABLE = "unreadable"
PIPELINE_COLUMNS = columns_of("pipeline")
RUN_COLUMNS = columns_of("runs")


def run_row(record: Record, path: str) -> dict[str, Any]:
    """The row of one record."""
    asked, machine, software = record.asked, record.machine, record.software
    return {
        "run": record.run,
        **{axis: getattr(asked, axis) for axis in CELL},
        "repeat": asked.repeat,
        "kind": asked.kind,
        "replicas": asked.replicas,
        "module": asked.module,
        "mode": asked.mode,
        "status": record.status,
        "reason": record.reason,
        "evidence": record.evidence,
        "seed": asked.seed,
        **_speed(record),
        **_latency(record),
        **_prefill(record),
        **_pipeline(record),
        **_quality(record),
        **_circumstances(record),
        "dataset": record.data.dataset if record.data else asked.dataset,
        "source": record.data.source if record.data else asked.source,
        "data_checksum": record.data.checksum if record.data else None,
        "device_name": machine.device_name,
        "device_count": machine.device_count,
        "cpu": machine.cpu,
        "threads": machine.threads,
        "physical_cores": machine.physical_cores,
        "last_level_cache": machine.last_level_cache,
        "host_memory": machine.memory,
        "machine_id": machine.identity,
        "operating_system": machine.operating_system,
        "driver": machine.driver,
        "python": software.python,
        "versions": _listed(software.versions, " "),
        "flags": _listed(software.flags, "="),
        **_types(record),
        "git_commit": software.git_commit,
        "code_hash": software.code_hash,
        "started": record.started.strftime("%Y-%m-%d %H:%M:%S"),
        "ended": record.ended.strftime("%Y-%m-%d %H:%M:%S"),
        "record": path,
    }


def _speed(record: Record) -> dict[str, Any]:
    facts, cold, steady = record.workload, record.cold, record.steady
    step_time = steady.seconds / steady.steps if steady.steps else steady.step_time
    steps = facts.steps_per_epoch if facts else 0
    flops = facts.flops_per_step if facts else None
    first = cold.first_step
    return {
        "unit": facts.unit if facts else None,
        "parameters": (facts.parameters or None) if facts else None,
        "training_examples": (facts.training_examples or None) if facts else None,
        "steps_per_epoch": steps or None,
        "steps_per_sequence": _sequence(record),
        "flops_per_step": flops or None,
        "flops_counted": facts.flops_counted if facts else None,
        "bytes_per_step": (facts.bytes_per_step or None) if facts else None,
        "start": cold.start,
        "initialise": cold.initialise,
        "load": cold.load,
        "build": cold.build,
        "first_step": first,
        "warm_up": sum(seconds for _, seconds in cold.warm_up) if cold.warm_up else None,
        "warm_up_epochs": cold.warm_up_epochs,
        "warm_up_end": cold.warm_up_end,
        "trend": steady.trend,
        "drift": steady.drift,
        "steps": steady.steps or None,
        "seconds": steady.seconds or None,
        "step_time": step_time,
        **within_process(steady.windows),
        "throughput": steady.throughput,
        "tflops": flops / step_time / 1e12 if flops and step_time else None,
        "cold_tflops": flops / first / 1e12 if flops and first else None,
        "epoch_time": steps * step_time if steps and step_time else None,
    }


def _latency(record: Record) -> dict[str, Any]:
    latency = record.latency
    if latency is None:
        return {}
    p99 = None if latency.p99 is None else 1e3 * latency.p99
    return {"calls": latency.calls, "latency_p50": 1e3 * latency.p50, "latency_p99": p99}


def _prefill(record: Record) -> dict[str, Any]:
    generated = record.generated
    if generated is None:
        return {}
    return {
        "prefill_time": generated.prefill.step_time,
        "prompt": generated.prompt,
        "cache_bytes": generated.cache_bytes,
    }


def _sequence(record: Record) -> int | None:
    """Length of the sequences: the second axis of the input, after the batch, where sequences are what is counted."""
    if asked := record.asked.sequence_length:
        return asked
    facts = record.workload
    return facts.input_shape[1] if facts and facts.unit == "sequence" and len(facts.input_shape) > 1 else None


def _quality(record: Record) -> dict[str, Any]:
    results = record.results
    metric = record.workload.metric if record.workload else None
    last = record.epochs[-1] if record.epochs else None
    final = {
        "training_metric": _number(results, f"training_{metric}", last.metric if last else None),
        "validation_metric": _number(results, f"validation_{metric}", last.validation_metric if last else None),
        "loss": _number(results, "loss", last.loss if last else None),
        "validation_loss": _number(results, "validation_loss", last.validation_loss if last else None),
    }
    return {
        "learned_epochs": record.learned_epochs or None,
        "cut": record.learning.ended_by == "seconds" if record.epochs else None,
        "learning_time": sum(epoch.seconds + (epoch.validation_seconds or 0) for epoch in record.epochs) or None,
        "metric": metric,
        **final,
    }


def _number(results: dict[str, Any], name: str, otherwise: float | None) -> float | None:
    """A final number; results are whatever a workload says, and a record from elsewhere may hold anything."""
    value = results.get(name, otherwise)
    if value is None or (isinstance(value, int | float) and abs(value) <= sys.float_info.max):
        return value
    return float("nan")


def _types(record: Record) -> dict[str, Any]:
    types = record.software.types
    return {
        "type_storage": types.storage if types else None,
        "type_product": types.product if types else None,
        "type_sum": types.sum if types else None,
        "remarks": "; ".join(record.workload.remarks) or None if record.workload else None,
        "emulated": types.emulated if types else None,
    }


def _circumstances(record: Record) -> dict[str, Any]:
    noise, energy = record.noise, record.energy
    before, after = noise.calibration_before, noise.calibration_after
    return {
        "peak_host": record.memory.peak_host,
        "peak_device": record.memory.peak_device,
        "joules": energy.joules,
        "meter": energy.meter or energy.reason,
        "steady_watts": steady_watts(energy),
        "metered_seconds": energy.parts["steady"].seconds if "steady" in energy.parts else None,
        "meter_update": energy.update,
        **{f"{name}_watts": steady_watts(energy.beside.get(name)) for name in ("host", "memory")},
        "attempts": 1 + len(record.attempts),
        "disturbed": noise.disturbed,
        "disturbance": "; ".join(noise.reasons) or None,
        "not_repeated": noise.not_repeated,
        "learning_disturbed": any(attempt.learned and attempt.noise.disturbed for attempt in record.attempts) or None,
        "severity": noise.severity,
        "calibration": before,
        "calibration_kernel": None if before is None else noise.calibration_kernel,
        "calibration_change": noise.calibration_change or (after / before if before and after else None),
        "load_before": noise.load_before,
        "others": noise.others if noise.others_timed is None else noise.others_timed,
        "steal": noise.steal,
        "throttled": noise.throttled,
    }


def _listed(values: dict[str, str], between: str) -> str | None:
    return "; ".join(f"{name}{between}{value}" for name, value in sorted(values.items())) or None


def _pipeline(record: Record) -> dict[str, Any]:
    """The columns `pipeline` of one record."""
    pipeline = record.pipeline
    if pipeline is None or not pipeline.rates:
        return {}
    return {"pipeline": pipeline.origin} | best_and_written(pipeline.rates)


@makes("one row per run that the config asks for or that left a record, whatever its status", RUN_COLUMNS)
def make_runs(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return table(sources.run_rows, RUN_COLUMNS)


def configured_runs(study: Study) -> list[Run]:
    """Return every run of the config, repeat by repeat, except of workloads whose file is gone or cannot be read."""
    known = {name: workload for name, workload in study.workloads.items() if _is_known(study, name)}
    return study_runs(study.model_copy(update={"workloads": known}))


def _is_known(study: Study, name: str) -> bool:
    workload = study.workloads[name]
    try:
        study_runs(study.model_copy(update={"workloads": {name: workload}}))
    except StudyError:
        return False
    return True


def missing_row(study: Study, run: Run, measured_devices: Set[str]) -> dict[str, Any]:
    """The row of a configured run without a record, and the command that would measure it."""
    return asked_row(study, run) | {
        "status": NOT_MEASURED,
        "reason": absence(study, run.cell.device, measured_devices),
    }


def absence(study: Study, device: str, measured_devices: Set[str]) -> str:
    """Why runs of a device have no record, and what to do."""
    kind = study.devices[device].kind
    if device in measured_elsewhere(Path(study.root)):
        return "not among the records of that machine; measure it there and bring them again (--records)"
    command = f"run: {workflow_command(study, kind)}"
    if device in measured_devices or kind == "cpu":  # every host has a cpu
        return f"not measured yet; {command}"
    if isinstance(study.run_on, list) and device not in study.run_on:
        return f"left out by run_on; add {device} to it, then {command}"
    return f"no {kind} on this host; {command}"


def unreadable_row(study: Study, run: Run | None, path: str, reason: str) -> dict[str, Any]:
    """The row of a record that cannot be read; `run` is None where not even its path names one."""
    asked = asked_row(study, run) if run else {}
    return asked | {"run": run.path if run else path, "status": UNREADABLE, "reason": reason, "record": path}


def asked_row(study: Study, run: Run) -> dict[str, Any]:
    """Return what the path of a run alone shows."""
    cell = run.cell
    device = study.devices.get(cell.device)
    workload = study.workloads.get(cell.workload)
    return {
        "run": run.path,
        **{axis: getattr(cell, axis) for axis in CELL},
        "repeat": run.repeat,
        "kind": device.kind if device else None,
        "replicas": device.replicas if device else None,
        "module": (workload.module if workload else None) or cell.workload,
        "seed": study.seed,
    }


CURVES_COLUMNS = columns_of("curves")


@makes("one row per point of a run's learning curve: every few steps, or each epoch", CURVES_COLUMNS)
def make_curves(sources: Sources) -> pd.DataFrame:
    """Return table `curves`."""
    return table(sources.curve_rows, CURVES_COLUMNS)


def curve_rows(record: Record) -> Iterator[dict[str, Any]]:
    """Points of the learning curve of one record, in order; where its time was not limited, its epochs."""
    shared = {
        "run": record.run,
        **{axis: getattr(record.asked, axis) for axis in CELL},
        "repeat": record.asked.repeat,
        "metric_name": record.workload.metric if record.workload else None,
        "higher_is_better": record.workload.higher_is_better if record.workload else None,
        "source": record.data.source if record.data else record.asked.source,
    }
    of_epoch = record.workload.steps_per_epoch if record.workload else 1
    for point in record.curve:
        yield shared | dict(point) | {"passed": point.steps / of_epoch}
    seconds = 0.0
    for epoch in record.epochs if not record.curve else ():
        seconds += epoch.seconds + (epoch.validation_seconds or 0.0)
        passed = epoch.epoch if epoch.steps is None else record.learned_epochs
        yield shared | dict(epoch) | {"passed": passed, "seconds": seconds}
