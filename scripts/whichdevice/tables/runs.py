"""Make tables `runs` and `epochs`: what single runs took, and the epochs that they learned."""

import sys
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import pandas as pd

from whichdevice.cells import Run
from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.models.pipeline import best_and_written
from whichdevice.records.schema import Energy, Record
from whichdevice.records.store import measured_elsewhere
from whichdevice.study_cells import study_runs, workflow_command
from whichdevice.tables import makes
from whichdevice.tables.base import CELL_COLUMNS, TYPE_COLUMNS, Column, Sources, table
from whichdevice.tables.decision_rule import NOISE_RUN_COLUMNS, within_process

NOT_MEASURED = "not_measured"
UNREADABLE = "unreadable"
RUN_PARTS = ("input", "host", "compute", "other")
MEANINGS = {
    "input": "choosing and converting the batch; with `fit`, feeding and copying it is in compute",
    "host": "the loop around the step; in eager PyTorch on a CPU, the time between operations",
    "compute": "the step itself, with the framework's own scheduling of its operations",
    "other": "starting a call of the loop, waiting for it and reading its result",
}
BREAKDOWN_RUN_COLUMNS: dict[str, Column] = {
    "broken_down": Column("float", "s, step time beside the variants that its parts were found with; the parts' sum"),
    **{f"{name}_time": Column("float", f"s of a step: {text}") for name, text in MEANINGS.items()},
    "breakdown_note": Column("text", "why there is no breakdown, or what noise made of it"),
    "breakdown_method": Column("text", "how the parts were found"),
}
PIPELINE_COLUMNS: dict[str, Column] = {
    "pipeline": Column(
        "text", "own: of the model's file or script; fit: what feeds the loop `fit`; no model takes part"
    ),
    "pipeline_rate": Column("float", "examples per second that it gives, with the best number of workers"),
    "pipeline_workers": Column("int", "how many that are; 0: the training's own process"),
    "pipeline_core_rate": Column(
        "float", "examples per second that each core gives with a worker; 0: more give no more"
    ),
    "written_rate": Column("float", "examples per second with so many workers as the file has"),
    "written_workers": Column("int", "how many those are; empty: as many as there are cores"),
}
RUN_COLUMNS: dict[str, Column] = {
    "run": Column("text", "<device>/<workload>/<cell>/r<repeat>"),
    **CELL_COLUMNS,
    "repeat": Column("int", "number of the process, from 1"),
    "kind": Column("text", "cpu, gpu or tpu"),
    "replicas": Column("int", "chips or cores that share a batch"),
    "module": Column("text", "workload file"),
    "mode": Column("text", "train, predict or generate; empty: a single operation, or no record"),
    "status": Column("text", "ok, out_of_memory, timed_out, failed, refused, unreadable or not_measured"),
    "reason": Column("text", "why the status is not ok"),
    "evidence": Column("text", "how the numbers were obtained: measured, forecast, compiled or published"),
    "seed": Column("int", "seed of weights, batch order and stand-in data"),
    "unit": Column("text", "what throughput counts"),
    "parameters": Column("int", "trainable and other weights"),
    "training_examples": Column("int", "training examples used"),
    "steps_per_epoch": Column("int", "steps per epoch"),
    "steps_per_sequence": Column("int", "length of the sequences really used, recurrent workloads"),
    "flops_per_step": Column("float", "analytic floating-point operations of a step, all replicas"),
    "flops_counted": Column("text", "how they were counted, and what was not"),
    "bytes_per_step": Column("float", "analytic estimate of the bytes that a step moves, all replicas; mostly too low"),
    "start": Column("float", "s, process start to framework imported"),
    "initialise": Column("float", "s, device taken: CUDA context, TPU system"),
    "load": Column("float", "s, dataset opened and placed"),
    "build": Column("float", "s, model built"),
    "first_step": Column("float", "s, trace, compilation and one step"),
    "warm_up": Column("float", "s, steps discarded before steady state"),
    "first_epoch_time": Column("float", "s, computed: first step and the rest of the epoch at steady speed"),
    "warm_up_epochs": Column("float", "epochs of first step and warm-up; below 1: an epoch outlasts the time budget"),
    "warm_up_end": Column("text", "which test ended the warm-up, and its result"),
    "trend": Column("text", "of the step times in steady state: none, rising or falling; empty: too few to test"),
    "drift": Column("float", "change of the step time over the steady state, as a share"),
    "steps": Column("int", "steps timed in steady state"),
    "seconds": Column("float", "s, time of those steps"),
    "step_time": Column("float", "s, seconds / steps"),
    **NOISE_RUN_COLUMNS,
    "throughput": Column("float", "units per second in steady state"),
    "calls": Column("int", "mode predict: calls timed one by one"),
    "latency_p50": Column("float", "ms, mode predict: median time of a call"),
    "latency_p99": Column("float", "ms, mode predict: 99th percentile; empty: fewer than 100 calls"),
    "prefill_time": Column("float", "s, mode generate: the prompts of a batch; step_time is a token of each sequence"),
    "prefill_throughput": Column("float", "tokens of the prompts per second"),
    "prompt": Column("int", "tokens of each prompt"),
    "cache_bytes": Column("float", "bytes of the batch's keys and values"),
    "tflops": Column("float", "TFLOP/s in steady state"),
    "cold_tflops": Column("float", "TFLOP/s of the first step, compilation included"),
    "epoch_time": Column("float", "s, computed: steps per epoch x step time"),
    **BREAKDOWN_RUN_COLUMNS,
    **PIPELINE_COLUMNS,
    "learned_epochs": Column("float", "epochs learned; no whole number where train.seconds ended the last one early"),
    "cut": Column("flag", "whether train.seconds ended learning before its epochs were over"),
    "learned_epoch_time": Column("float", "s, mean of learned epochs without the first, training only"),
    "validation_time": Column("float", "s, mean of the validation after these epochs"),
    "learning_time": Column("float", "s, all learned epochs with validation"),
    "metric": Column("text", "name of the quality metric"),
    "training_metric": Column("float", "quality on training data at the end"),
    "validation_metric": Column("float", "quality on validation data at the end"),
    "loss": Column("float", "training loss at the end"),
    "validation_loss": Column("float", "validation loss at the end"),
    "peak_host": Column("int", "bytes, peak memory of the process; of PyTorch's one per replica, added up"),
    "peak_device": Column("int", "bytes, peak memory on the device"),
    "joules": Column("float", "J, energy of the run, where a meter was readable"),
    "meter": Column("text", "which meter, or why none"),
    "steady_watts": Column("float", "W, mean of the device over the steady windows"),
    "metered_seconds": Column("float", "s, time between the meter's readings around them"),
    "meter_update": Column("float", "s, time between two new values of the meter"),
    "host_watts": Column("float", "W, meanwhile, of the processors of a GPU's or TPU's host"),
    "memory_watts": Column("float", "W, meanwhile, of the host's memory, where it has a counter"),
    "attempts": Column("int", "processes of this run; the quieter of two counts"),
    "disturbed": Column("flag", "the machine changed speed or was busy during the attempt that counts"),
    "disturbance": Column("text", "what showed it"),
    "not_repeated": Column("text", "why a disturbed run was not repeated"),
    "learning_disturbed": Column("flag", "the attempt that learned was disturbed; timing is of another one"),
    "severity": Column("float", "largest disturbance against its bound; above 1: disturbed"),
    "calibration": Column("float", "s, the fixed work on all cores before the run, its fastest burst"),
    "calibration_kernel": Column("text", "which fixed work; times of different ones cannot be compared"),
    "calibration_change": Column("float", "fixed kernel after / before the run"),
    "load_before": Column("float", "one-minute load average before the run"),
    "others": Column("float", "share of the usable cores that other processes kept busy in the timed windows"),
    "steal": Column("float", "share of processor time stolen by the hypervisor"),
    "throttled": Column("float", "share of the usable cores' time that a container's limit held its processes up"),
    "dataset": Column("text", "dataset"),
    "source": Column("text", "where the data came from: files, tfds, standin, or a model file: own or generated"),
    "data_checksum": Column("text", "checksum of the data that the run read"),
    "device_name": Column("text", "name of the device"),
    "device_count": Column("int", "devices used"),
    "cpu": Column("text", "processor of the host"),
    "threads": Column("int", "threads given to the framework"),
    "physical_cores": Column("int", "cores behind the usable logical processors, as the system reports them"),
    "last_level_cache": Column("int", "bytes of all last-level caches of the host that the run may have filled"),
    "host_memory": Column("int", "bytes, memory of the host"),
    "machine_id": Column("text", "hash that differs between machines of a kind; it names none"),
    "operating_system": Column("text", "operating system"),
    "driver": Column("text", "device driver"),
    "python": Column("text", "Python version"),
    "versions": Column("text", "versions of the libraries"),
    "flags": Column("text", "resolved settings of the framework"),
    **TYPE_COLUMNS,
    "git_commit": Column("text", "commit of the project"),
    "code_hash": Column("text", "hash of the code that measured"),
    "started": Column("text", "start, UTC"),
    "ended": Column("text", "end, UTC"),
    "record": Column("text", "path of the record"),
    "other_machine": Column("flag", "only another machine measures this device; its records are merged"),
}


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
        **_speed(record),
        **_latency(record),
        **_prefill(record),
        **_breakdown(record),
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
        "first_epoch_time": first + (steps - 1) * step_time if first and steps and step_time else None,
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
        "prefill_throughput": generated.prefill.throughput,
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
    later = [epoch.seconds for epoch in record.epochs[1:] if epoch.steps is None]
    validations = [epoch.validation_seconds for epoch in record.epochs[1:] if epoch.validation_seconds is not None]
    final = {
        "training_metric": _number(results, f"training_{metric}", last.metric if last else None),
        "validation_metric": _number(results, f"validation_{metric}", last.validation_metric if last else None),
        "loss": _number(results, "loss", last.loss if last else None),
        "validation_loss": _number(results, "validation_loss", last.validation_loss if last else None),
    }
    return {
        "learned_epochs": record.learned_epochs or None,
        "cut": record.learning.ended_by == "seconds" if record.epochs else None,
        "learned_epoch_time": sum(later) / len(later) if later else None,
        "validation_time": sum(validations) / len(validations) if validations else None,
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


def _breakdown(record: Record) -> dict[str, Any]:
    """`BREAKDOWN_RUN_COLUMNS` of one record."""
    breakdown = record.breakdown
    if breakdown is None:
        return {}
    parts = {f"{name}_time": getattr(breakdown, name) for name in RUN_PARTS}
    note = breakdown.reason or "; ".join(breakdown.notes) or None
    return {"broken_down": breakdown.step_time, **parts, "breakdown_note": note, "breakdown_method": breakdown.method}


def _pipeline(record: Record) -> dict[str, Any]:
    """`PIPELINE_COLUMNS` of one record."""
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
        return "not among the records of that machine; measure it there and merge them again"
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
        **{axis: getattr(cell, axis) for axis in CELL_COLUMNS},
        "repeat": run.repeat,
        "kind": device.kind if device else None,
        "replicas": device.replicas if device else None,
        "module": (workload.module if workload else None) or cell.workload,
        "seed": study.seed,
    }


EPOCHS_COLUMNS: dict[str, Column] = {
    "run": Column("text", "<device>/<workload>/<cell>/r<repeat>"),
    **CELL_COLUMNS,
    "repeat": Column("int", "number of the process, from 1"),
    "epoch": Column("int", "epoch, from 1"),
    "passed": Column("float", "epochs learned at its end; no whole number where train.seconds ended it early"),
    "seconds": Column("float", "s, training only"),
    "validation_seconds": Column("float", "s, validation"),
    "loss": Column("float", "training loss"),
    "metric": Column("float", "training quality, by the metric that `metric_name` names"),
    "validation_loss": Column("float", "validation loss"),
    "validation_metric": Column("float", "validation quality"),
    "learning_rate": Column("float", "learning rate of the epoch"),
    "metric_name": Column("text", "name of the quality metric"),
    "higher_is_better": Column("flag", "whether a higher metric is better; a loss is always better lower"),
    "joules": Column("float", "J, training and validation, where a meter was readable"),
    "source": Column("text", "where the data came from"),
}


@makes("one row per epoch that a run learned", EPOCHS_COLUMNS)
def make_epochs(sources: Sources) -> pd.DataFrame:
    """Return table `epochs`."""
    return table(sources.epoch_rows, EPOCHS_COLUMNS)


def epoch_rows(record: Record) -> Iterator[dict[str, Any]]:
    """The learned epochs of one record, in order."""
    shared = {
        "run": record.run,
        **{axis: getattr(record.asked, axis) for axis in CELL_COLUMNS},
        "repeat": record.asked.repeat,
        "metric_name": record.workload.metric if record.workload else None,
        "higher_is_better": record.workload.higher_is_better if record.workload else None,
        "source": record.data.source if record.data else record.asked.source,
    }
    for epoch in record.epochs:
        metered = record.energy.parts.get(f"epoch {epoch.epoch}")
        passed = epoch.epoch if epoch.steps is None else record.learned_epochs
        yield shared | dict(epoch) | {"passed": passed, "joules": metered.joules if metered else None}
