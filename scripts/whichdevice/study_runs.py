"""Every run of a study, the order of measuring, and the Python files that runs are made of."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from whichdevice.cells import Cell, Run, workload_cells
from whichdevice.config.model import Study
from whichdevice.workloads import read_address, workload_class
from whichdevice.workloads.base import TrainingWorkload


def study_runs(study: Study) -> list[Run]:
    """Every configured run: all first repeats, then all second ones, each in the order of the config.

    Raises StudyError where a batch size is the recipe's and the workload cannot be found.
    """
    cells = [cell for cell in _configured_cells(study) if _shares_evenly(study, cell)]
    return [Run(cell, repeat) for repeat in range(1, study.measure.repeats + 1) for cell in cells]


def uneven_cells(study: Study) -> list[Cell]:
    """What is configured and makes no run on any host: training whose replicas cannot share the batch evenly."""
    return [cell for cell in _configured_cells(study) if not _shares_evenly(study, cell)]


def _configured_cells(study: Study) -> list[Cell]:
    sizes = {name: _recipe_batch_size(study, name) for name in study.workloads}
    return [
        cell
        for device, settings in study.devices.items()
        for name, workload in study.workloads.items()
        for cell in workload_cells(device, settings.kind, name, workload, sizes[name])
    ]


def _shares_evenly(study: Study, cell: Cell) -> bool:
    if cell.batch_size % study.devices[cell.device].replicas == 0:
        return True
    chosen = workload_class(study.workloads[cell.workload].module or cell.workload)
    return not issubclass(chosen, TrainingWorkload)


def own_modules(study: Study) -> dict[str, str]:
    """What a study's workloads name that is somebody's own code or model, each with one of these workloads."""
    named = {workload.module or name: name for name, workload in study.workloads.items()}
    return {module: name for module, name in named.items() if read_address(module).is_own}


def workload_files(study: Study) -> list[str]:
    """Every file that a study's own workloads consist of, relative to the working folder where it is below it."""
    here = Path.cwd()
    files = {path for module in own_modules(study) for path in read_address(module).files()}
    absolute = sorted({path.absolute() for path in files})
    return [str(path.relative_to(here)) if path.is_relative_to(here) else str(path) for path in absolute]


def measuring_order(study: Study, runs: Iterable[Run]) -> list[Run]:
    """Randomised blocks: all first repeats, then all second ones, the cells of each in an order of its own.

    So drift hits all cells alike, and none always comes after the same other one. The order follows from the study's
    seed and from each cell's name: the same at every call, and a cell more leaves the others' order as it was.
    """

    def place(run: Run) -> tuple[int, bytes]:
        return run.repeat, hashlib.sha256(f"{study.seed} {run.path}".encode()).digest()

    return sorted(runs, key=place)


def _recipe_batch_size(study: Study, name: str) -> int:
    """The recipe's batch size, or 0 where the config sets its own and the workload need not be read."""
    workload = study.workloads[name]
    return 0 if workload.batch_size else workload_class(workload.module or name).recipe.batch_size
