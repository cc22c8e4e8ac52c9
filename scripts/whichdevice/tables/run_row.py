"""One record as a row of table `runs`."""

import sys
from typing import Any

from whichdevice.records.conditions import Energy
from whichdevice.records.schema import Record
from whichdevice.tables.breakdown import breakdown_row
from whichdevice.tables.columns import CELL_COLUMNS
from whichdevice.tables.noise_split import within_process


def run_row(record: Record, path: str) -> dict[str, Any]:
    """The row of one record."""
    asked, machine, software = record.asked, record.machine, record.software
    return {
        "run": record.run,
        **{axis: getattr(asked, axis) for axis in CELL_COLUMNS},
        "repeat": asked.repeat,
        "kind": asked.kind,
        "replicas": asked.replicas,
        "module": asked.module,
        "mode": asked.mode,
        "status": record.status,
        "reason": record.reason,
        "evidence": record.evidence,
        "seed": asked.seed,
        "planted": asked.slowdown or None,
        **_speed(record),
        **_latency(record),
        **breakdown_row(record),
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
        "remarks": "; ".join(record.workload.remarks) or None if record.workload else None,
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
        "first_epoch_time": first + (steps - 1) * step_time if first and steps and step_time else None,
    }


def _latency(record: Record) -> dict[str, Any]:
    found = record.latency
    if found is None:
        return {}
    p99 = None if found.p99 is None else 1e3 * found.p99
    return {"calls": found.calls, "latency_p50": 1e3 * found.p50, "latency_p99": p99}


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
    later = [epoch.seconds for epoch in record.epochs[1:]]
    validations = [epoch.validation_seconds for epoch in record.epochs[1:] if epoch.validation_seconds is not None]
    final = {
        "training_metric": _number(results, f"training_{metric}", last.metric if last else None),
        "validation_metric": _number(results, f"validation_{metric}", last.validation_metric if last else None),
        "loss": _number(results, "loss", last.loss if last else None),
        "validation_loss": _number(results, "validation_loss", last.validation_loss if last else None),
    }
    return {
        "learned_epochs": len(record.epochs) or None,
        "learned_epoch_time": sum(later) / len(later) if later else None,
        "validation_time": sum(validations) / len(validations) if validations else None,
        "learning_time": sum(epoch.seconds + (epoch.validation_seconds or 0) for epoch in record.epochs) or None,
        "metric": metric,
        **final,
        "misclassified": _count(results, "misclassified"),
        "test_images": _count(results, "test_images"),
    }


def _number(results: dict[str, Any], name: str, otherwise: float | None) -> float | None:
    """A final number; results are whatever a workload says, and a record from elsewhere may hold anything."""
    value = results.get(name, otherwise)
    if value is None or (isinstance(value, int | float) and abs(value) <= sys.float_info.max):
        return value
    return float("nan")


def _count(results: dict[str, Any], name: str) -> int | None:
    value = results.get(name)
    return value if isinstance(value, int) and 0 <= value < 2**63 else None


def _types(record: Record) -> dict[str, Any]:
    types = record.software.types
    return {
        "type_storage": types.storage if types else None,
        "type_product": types.product if types else None,
        "type_sum": types.sum if types else None,
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
        "steady_watts": _steady_watts(energy),
        "metered_seconds": energy.parts["steady"].seconds if "steady" in energy.parts else None,
        "meter_update": energy.update,
        **{f"{name}_watts": _steady_watts(energy.beside.get(name)) for name in ("host", "memory")},
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


def _steady_watts(energy: Energy | None) -> float | None:
    part = energy.parts.get("steady") if energy else None
    return part.joules / part.seconds if part and part.seconds else None


def _listed(values: dict[str, str], between: str) -> str | None:
    return "; ".join(f"{name}{between}{value}" for name, value in sorted(values.items())) or None
