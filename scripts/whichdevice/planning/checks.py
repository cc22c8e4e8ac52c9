"""What a config may name but this version cannot run."""

import csv
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from whichdevice.backends import backend_class, backend_names
from whichdevice.config.model import Study
from whichdevice.errors import StudyError

HARDWARE = Path(__file__).parents[3] / "config" / "hardware.csv"


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
    """Raise StudyError where a device names no row of the hardware sheet."""
    with HARDWARE.open(encoding="utf-8", newline="") as file:
        known = [row["device"] for row in csv.DictReader(file)]
    for name, device in study.devices.items():
        if device.hardware is not None and device.hardware not in known:
            near = get_close_matches(device.hardware, known, n=1, cutoff=0.3) or known
            raise StudyError(
                f"config: devices.{name}.hardware: {device.hardware} is not in config/hardware.csv; nearest: {near[0]}"
            )


def _unknown(workload: str, key: str, value: str, who: str, known: Iterable[str]) -> StudyError:
    return StudyError(f"config: workloads.{workload}.{key}: {who} does not run {value}; it runs {', '.join(known)}")
