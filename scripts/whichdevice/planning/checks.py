"""What a config may name but this version cannot run."""

import sys
from collections.abc import Container, Iterable
from difflib import get_close_matches
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from whichdevice.backends import backend_class, backend_names
from whichdevice.cells import Cell, Run
from whichdevice.config.hardware import hardware_rows, price_sheet
from whichdevice.config.model import Study
from whichdevice.datasets.sources import check_names
from whichdevice.errors import StudyError
from whichdevice.forecast.study import study_targets
from whichdevice.planning.axis_checks import check_axes
from whichdevice.planning.export_plan import check_export
from whichdevice.study_runs import uneven_cells


def check_study(study: Study) -> None:
    """Raise StudyError where the config names what is not there or asks for what this version cannot run."""
    check_backends(study)
    check_axes(study)
    check_export(study)
    check_hardware(study)
    check_forecast(study)
    check_names(study.data)


def check_backends(study: Study) -> None:
    """Raise StudyError where a workload asks for a backend, precision or loop that this version does not run."""
    for name, workload in study.workloads.items():
        for backend in workload.backend:
            if backend not in backend_names():
                raise _unknown(name, "backend", backend, "this version", backend_names())
            runs = backend_class(backend)
            for precision in workload.precision:
                if precision not in runs.precisions:
                    raise _unknown(name, "precision", precision, backend, runs.precisions)
            for loop in workload.loop:
                if loop not in runs.loops:
                    raise _unknown(name, "loop", loop, backend, runs.loops)


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

    Of devices in `absent` an uneven batch is no error: `uneven_notes` says that it makes no cell.
    """
    uneven, measured = uneven_cells(study), {run.cell.workload for run in runs}
    for cell in uneven:
        if cell.device not in absent or cell.workload not in measured:
            raise _uneven(study, cell)
    for name, workload in study.workloads.items():
        if name not in measured:
            asked = f"backend {', '.join(workload.backend)} with precision {', '.join(workload.precision)}"
            where = "docs/reference/support.md"
            raise StudyError(f"config: workloads.{name}: no device of this study runs {asked}; see {where}")


def uneven_notes(study: Study) -> list[str]:
    """A line for each device that cannot share some of its workloads' batches evenly."""
    found: dict[str, dict[str, None]] = {}
    for cell in uneven_cells(study):
        found.setdefault(cell.device, {})[f"{cell.workload} with {cell.batch_size}"] = None
    return [
        f"Batches that the {study.devices[device].replicas} replicas of {device} cannot share make no cell there: "
        + ", ".join(batches)
        for device, batches in found.items()
    ]


def missing_packages(study: Study) -> dict[tuple[str, str], str]:
    """For each kind of device and backend that this environment cannot run: why, and what to do.

    A framework is installed or not; whether it was built for the kind is known where envs/install.sh installed it.
    """
    made = {path.name.removeprefix(".installed-") for path in Path(sys.prefix).glob(".installed-*")}
    kinds = {device.kind for device in study.devices.values()}
    backends = {backend for workload in study.workloads.values() for backend in workload.backend}
    missing: dict[tuple[str, str], str] = {}
    for kind, backend in product(sorted(kinds), sorted(backends)):
        needed = environment_of(kind, backend)
        how = f"make study ENV={needed} (docs/start/install.md)"
        if find_spec(backend_class(backend).package) is None:
            missing[kind, backend] = f"{backend} is not installed in this environment: {how}"
        elif kind != "cpu" and made and needed not in made | ({"cpu"} if "test" in made else set()):
            missing[kind, backend] = f"{backend} in this environment has no support for {kind}: {how}"
    return missing


def environment_of(kind: str, backend: str) -> str:
    """The name in envs/ that a run needs: PyTorch has its own, JAX on a TPU the ordinary one."""
    return "torch" if backend == "torch" else "cpu" if (kind, backend) == ("tpu", "jax") else kind


def check_forecast(study: Study) -> None:
    """Raise StudyError on a device or workload of `forecast` that does not exist, or a precision that no device has."""
    targets = study_targets(study)
    for name in study.forecast.workload or []:
        if name not in study.workloads:
            raise StudyError(f"config: forecast.workload: no {name}; there are {', '.join(study.workloads)}")
    for precision in study.forecast.precision:
        refusals = [target.refusal(precision) for target in targets if precision != "mixed"]
        if refusals and None not in refusals:
            raise StudyError(f"config: forecast.precision: {refusals[0]}")


def _uneven(study: Study, cell: Cell) -> StudyError:
    replicas, workload = study.devices[cell.device].replicas, study.workloads[cell.workload]
    others = [name for name in workload.device or study.devices if name != cell.device]
    without = f", or leave the device out: device: [{', '.join(others)}]" if others else ""
    return StudyError(
        f"config: workloads.{cell.workload}.batch_size: {cell.batch_size} examples cannot be divided over the "
        f"{replicas} replicas of device {cell.device}; take a multiple of {replicas}{without}"
    )


def _unknown(workload: str, key: str, value: str, who: str, known: Iterable[str]) -> StudyError:
    return StudyError(f"config: workloads.{workload}.{key}: {who} does not run {value}; it runs {', '.join(known)}")
