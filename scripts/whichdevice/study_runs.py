"""List the runs of a study, their order, their Python files, and the calls of Snakemake that make them."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from whichdevice.cells import Cell, Run, workload_cells
from whichdevice.config.model import Study
from whichdevice.records.results_folder import MERGED
from whichdevice.workloads import is_file_module, workload_class
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


def workload_files(study: Study) -> dict[str, str]:
    """The Python files that a study's workloads name, each with one of these workloads."""
    return {
        module: name for name, workload in study.workloads.items() if is_file_module(module := workload.module or name)
    }


def measuring_order(study: Study, runs: Iterable[Run]) -> list[Run]:
    """Randomised blocks: all first repeats, then all second ones, the cells of each repeat in another order.

    So drift affects all cells equally, and a cell does not always follow the same other one. The order follows from the
    study's seed and each cell's name: it is the same at every call, and another cell does not change it.
    """

    def place(run: Run) -> tuple[int, bytes]:
        return run.repeat, hashlib.sha256(f"{study.seed} {run.path}".encode()).digest()

    return sorted(runs, key=place)


def _recipe_batch_size(study: Study, name: str) -> int:
    """The recipe's batch size, or 0 where the config sets its own and the workload need not be read."""
    workload = study.workloads[name]
    return 0 if workload.batch_size else workload_class(workload.module or name).recipe.batch_size


def workflow_command(study: Study, target: str = "all", *more: str) -> str:
    """The call that makes a target of this study. Without `--configfile` Snakemake would take the default study's
    config, so the study's own is named unless it is that one."""
    own = [] if _is_default(study) else [f"--configfile {study.root}/config.yaml"]
    return " ".join(["snakemake --cores 1", target, *own, *more])


def repeat_failed(study: Study) -> str:
    """The call that repeats the failed runs of a study."""
    return workflow_command(study, "all", "--forcerun measure", "--config retry=failed")


def make_tables(folder: Path) -> str:
    """The call that makes the tables in this folder of a study."""
    config = folder.parent / "config.yaml"
    return "snakemake --cores 1 tables" + (f" --configfile {config}" if config.is_file() else "")


def _is_default(study: Study) -> bool:
    """Whether it is the config that ships; the sources found for its data do not matter, merged records do."""
    data = study.data.model_copy(update={"sources": {}})
    own = study.model_copy(update={"data": data})
    return all(getattr(own, name) == value for name, value in Study()) and not Path(study.root, MERGED).is_dir()
