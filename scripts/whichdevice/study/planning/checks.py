"""Checks of what a config may name and this version cannot run: each raises StudyError with one line."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path

from whichdevice.base.errors import StudyError, did_you_mean
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.prices import price_sheet
from whichdevice.forecast.targets import usual_precision
from whichdevice.measure.backends import backend_class, backend_names
from whichdevice.measure.backends.base import GENERATED_BY
from whichdevice.models.address import ARGUMENTS, built_in_names, full_name, is_path
from whichdevice.models.framework import BACKENDS, FRAMEWORKS, KERAS
from whichdevice.models.loading import Model
from whichdevice.study.cells import Cell, Run, model_of, selected, uneven_cells
from whichdevice.study.config.model import Call, Study, Workload
from whichdevice.study.prepare import check_names
from whichdevice.study.programs import study_targets
from whichdevice.study.request import epochs_of


def check_study(study: Study) -> None:
    """Raise StudyError where the config names what is not there or asks for what this version cannot run."""
    check_modules(study)
    check_backends(study)
    check_axes(study)
    check_export(study)
    check_hardware(study)
    check_forecast(study)
    check_names(study.data)


def check_backends(study: Study) -> None:
    """Raise StudyError where a workload asks for a backend or precision that this version does not run."""
    for name, workload in study.workloads.items():
        model = model_of(study, name)
        framework, generates = model.framework, workload.mode == "generate" and model.generates
        for backend in workload.backend:
            if backend not in backend_names():
                raise _unknown(name, "backend", backend, "this version", backend_names())
            if backend not in BACKENDS[framework]:
                raise StudyError(f"config: workloads.{name}.backend: {wrong_backend(model, backend)}")
            if generates and framework == KERAS and backend != "jax":
                raise StudyError(f"config: workloads.{name}.backend: {GENERATED_BY}")
            runs = backend_class(backend)
            for precision in workload.precision:
                if precision not in runs.precisions:
                    raise _unknown(name, "precision", precision, backend, runs.precisions)


def wrong_backend(model: Model, backend: str) -> str:
    """Why a model does not run on a backend, and which one it takes."""
    framework = model.framework
    return f"{model} is {FRAMEWORKS[framework]}, which {backend} does not run; take {', '.join(BACKENDS[framework])}"


def check_hardware(study: Study) -> None:
    """Raise StudyError where a device names no row of the hardware sheet, or the price sheet cannot be read."""
    known = list(hardware_rows(prices=price_sheet(study.prices)))
    for name, device in study.devices.items():
        if device.hardware is not None and device.hardware not in known:
            near = get_close_matches(device.hardware, known, n=1, cutoff=0.3) or known
            raise StudyError(
                f"config: devices.{name}.hardware: {device.hardware} is not in config/hardware.csv; nearest: {near[0]}"
            )


def check_cells(study: Study, runs: list[Run], absent: Container[str] = ()) -> None:
    """Raise StudyError where no device has what a workload asks for, or replicas cannot share a batch evenly.

    An uneven batch is no error on devices in `absent`: `uneven_notes` says that it makes no cell.
    """
    uneven, measured = uneven_cells(study), {run.cell.workload for run in runs}
    for cell in uneven:
        if cell.device not in absent or cell.workload not in measured:
            raise _uneven(study, cell)
    for name, workload in study.workloads.items():
        if name not in measured and workload.device != []:
            asked = f"backend {', '.join(workload.backend)} with precision {', '.join(workload.precision)}"
            where = "docs/reference/support.md"
            raise StudyError(f"config: workloads.{name}: no device of this study runs {asked}; see {where}")


def uneven_notes(study: Study) -> list[str]:
    """A line for each device that cannot share some of its workloads' batches evenly."""
    problems: dict[str, dict[str, None]] = {}
    for cell in uneven_cells(study):
        problems.setdefault(cell.device, {})[f"{cell.workload} with {cell.batch_size}"] = None
    return [
        f"Batches that the {study.devices[device].replicas} replicas of {device} cannot share make no cell there: "
        + ", ".join(batches)
        for device, batches in problems.items()
    ]


def check_forecast(study: Study) -> None:
    """Raise StudyError on a device or workload of `forecast` that does not exist, or a precision that no device has."""
    targets = study_targets(study)
    for name in study.forecast.workload or []:
        if name not in study.workloads:
            raise StudyError(f"config: forecast.workload: no {name}; there are {', '.join(study.workloads)}")
    for precision in study.forecast.precision:
        refusals = [target.refusal(usual_precision(target, precision), target.row.software[-1]) for target in targets]
        if refusals and None not in refusals:
            raise StudyError(f"config: forecast.precision: {refusals[0]}")


def _uneven(study: Study, cell: Cell) -> StudyError:
    replicas, workload = study.devices[cell.device].replicas, study.workloads[cell.workload]
    other_devices = [name for name in workload.device or study.devices if name != cell.device]
    without = f", or leave the device out: device: [{', '.join(other_devices)}]" if other_devices else ""
    return StudyError(
        f"config: workloads.{cell.workload}.batch_size: {cell.batch_size} examples cannot be divided over the "
        f"{replicas} replicas of device {cell.device}; take a multiple of {replicas}{without}"
    )


def _unknown(workload: str, key: str, value: str, who: str, known: Iterable[str]) -> StudyError:
    return StudyError(f"config: workloads.{workload}.{key}: {who} does not run {value}; it runs {', '.join(known)}")


def check_modules(study: Study) -> None:
    """Raise StudyError where a workload names no built-in module, file, package or model that exists."""
    known = built_in_names()
    for name, workload in study.workloads.items():
        module = full_name(" ".join((workload.module or name).split()))
        if is_path(module) and not Path(module.partition(ARGUMENTS)[0]).is_file():
            raise StudyError(f"config: workloads.{name}.module: no file {module}; paths start where Snakemake runs")
        if not is_path(module) and ":" not in module and module not in known:
            place = f"workloads.{name}.module: {module}" if workload.module else f"workloads.{name}"
            hint = did_you_mean(module, known)
            raise StudyError(f"config: {place} is no built-in workload{hint} (own ones need `module: path/to/file.py`)")
        if ":" in module:
            try:
                Model.read(module)
            except StudyError as error:
                raise StudyError(f"config: workloads.{name}.module: {error}") from error


def check_axes(study: Study) -> None:
    """Raise StudyError where a workload varies what its module does not read."""
    for name, workload in study.workloads.items():
        for axis, reason in _meaningless(workload, model_of(study, name)):
            raise StudyError(f"config: workloads.{name}.{axis}: {reason}; leave it out")


def _meaningless(workload: Workload, model: Model) -> list[tuple[str, str]]:
    """Each axis that is set and not read, with the reason."""
    has_model, mode = model.has_model, workload.mode
    generates, predicts = mode == "generate", mode != "train"
    subject, learns_not = f"{model} is a single operation and", f"mode {mode} learns nothing"
    reasons = (
        ("mode", predicts and not has_model, f"{subject} {mode}s nothing"),
        ("mode", generates and has_model and not model.generates, f"{model} is no model that generates tokens"),
        ("fraction", not has_model and workload.fraction != [1.0], f"{subject} reads no training data"),
        ("sequence_length", workload.sequence_length and not model.has_sequences, f"{model} has no sequences"),
        ("options", workload.options and not model.may_read_options, f"{model} reads none"),
        ("fraction", predicts and workload.fraction != [1.0], f"mode {mode} reads no training data"),
        ("export", predicts and workload.export, learns_not),
        ("epochs", predicts and workload.epochs is not None, learns_not),
        ("steps_per_epoch", predicts and workload.steps_per_epoch is not None, learns_not),
        ("validation", predicts and not workload.validation, learns_not),
    )
    return [(axis, reason) for axis, asked, reason in reasons if asked]


def check_export(study: Study) -> None:
    """Raise StudyError where a workload is exported that never learns."""
    for name, workload in study.workloads.items():
        if not workload.export:
            continue
        model = model_of(study, name)
        if not model.has_model or not epochs_of(study, name) or not study.train.repeats:
            raise StudyError(f"config: workloads.{name}.export: it learns nothing (epochs, train.repeats)")
        if model.framework != KERAS:
            raise StudyError(
                f"config: workloads.{name}.export: {FRAMEWORKS[model.framework]} cannot be exported; only Keras' are"
            )


def check_only(call: Call, runs: Sequence[Run]) -> None:
    """Raise StudyError unless every value of `only` occurs in these runs and together they select some."""
    wanted = call.only.model_dump(exclude_none=True)
    cells = [{**asdict(run.cell), "repeat": run.repeat} for run in runs]
    for axis, values in wanted.items():
        present = sorted({cell[axis] for cell in cells if cell[axis] is not None})
        for value in values:
            if value not in present:
                hint = did_you_mean(value, present) if present else "; no workload sets it"
                raise StudyError(f"config: only.{axis}: {value} does not occur in this study{hint}")
    if wanted and not any(selected(run, call.only) for run in runs):
        chosen = ", ".join(f"{axis} {' or '.join(map(str, values))}" for axis, values in wanted.items())
        raise StudyError(f"config: only selects nothing: no run has {chosen} together")
