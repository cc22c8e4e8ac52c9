"""Cells and runs: what one is, the path that names it, a study's cells, and the calls of Snakemake that make them.

Cells are enumerated here and nowhere else.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from whichdevice.base.errors import StudyError
from whichdevice.models.framework import JAX, KERAS, TORCH
from whichdevice.models.loading import Model
from whichdevice.study.config.model import DeviceKind, Only, Study, Workload

# Axes that are left out of a cell's name at these values.
AXIS_DEFAULTS: dict[str, Any] = {"fraction": 1.0, "sequence_length": None}
AXIS_TYPES: dict[str, Any] = {"fraction": float, "sequence_length": int}
CELL = re.compile(r"^(?P<backend>[a-z]+)-(?P<precision>[a-z0-9_]+)-b(?P<batch_size>\d+)(?P<axes>(-[a-z_]+=[^-/=]+)*)$")
MERGED = "merged"  # folder of a study: records of other machines
REPEAT = re.compile(r"r[1-9]\d*")
KEY = re.compile(r"[0-9a-f]{12}")  # the last folder of a record's path: what was measured, as a hash
AnyStudy = TypeVar("AnyStudy", bound=Study)
# What a kind of device does not have makes no cell: TF32 and float16 with loss scaling belong to GPUs.
KIND_PRECISIONS = {
    "cpu": ("float32", "mixed_bfloat16", "bfloat16"),
    "gpu": ("float32", "tf32", "mixed_bfloat16", "mixed_float16", "bfloat16"),
    "tpu": ("float32", "mixed_bfloat16", "bfloat16"),
}
KIND_BACKENDS = {
    "cpu": ("tensorflow", "jax", "torch"),
    "gpu": ("tensorflow", "jax", "torch"),
    "tpu": ("tensorflow", "jax"),
}


@dataclass(frozen=True, order=True)
class Cell:
    """One combination of device, workload, backend, precision, batch size and further axes."""

    device: str
    workload: str
    backend: str
    precision: str
    batch_size: int
    fraction: float = 1.0
    sequence_length: int | None = None

    @property
    def name(self) -> str:
        """The cell's folder below device and workload, e.g. `tensorflow-float32-b1024-fraction=0.1`."""
        axes = "".join(
            f"-{axis}={getattr(self, axis)}"
            for axis, default in AXIS_DEFAULTS.items()
            if getattr(self, axis) != default
        )
        return f"{self.backend}-{self.precision}-b{self.batch_size}{axes}"

    @property
    def path(self) -> str:
        """`<device>/<workload>/<name>`."""
        return f"{self.device}/{self.workload}/{self.name}"


@dataclass(frozen=True, order=True)
class Run:
    """One process: a cell and the number of its repeat, from 1."""

    cell: Cell
    repeat: int

    @property
    def path(self) -> str:
        """`<device>/<workload>/<cell>/r<repeat>`, below results/<study>/runs; a record is in `<path>/<key>` there."""
        return f"{self.cell.path}/r{self.repeat}"


def parse_run(path: str) -> Run:
    """Read a run back from its path or from a path of one of its records; raises StudyError on anything else."""
    parts = path.removesuffix("/record.json").split("/")
    if KEY.fullmatch(parts[-1]):
        parts.pop()
    if len(parts) >= 4 and REPEAT.fullmatch(parts[-1]) and (cell := _parse_cell(*parts[-4:-1])):
        with suppress(ValueError):  # a number of thousands of digits
            return Run(cell, int(parts[-1][1:]))
    raise StudyError(
        f"not a run: {path!r}; expected <device>/<workload>/<backend>-<precision>-b<batch>[-<axis>=<value>]/r<repeat>"
    )


@lru_cache(2**16)  # the repeats of a cell share it
def _parse_cell(device: str, workload: str, name: str) -> Cell | None:
    if match := CELL.match(name):
        axes = dict(axis.split("=") for axis in match["axes"].split("-") if axis)
        if axes.keys() <= AXIS_TYPES.keys():
            with suppress(ValueError):  # a fraction that is no number, or one of thousands of digits
                typed = {axis: AXIS_TYPES[axis](value) for axis, value in axes.items()}
                return Cell(device, workload, match["backend"], match["precision"], int(match["batch_size"]), **typed)
    return None


def selected(run: Run, only: Only) -> bool:
    """Whether a call narrowed by `only` measures this run."""
    values = {**asdict(run.cell), "repeat": run.repeat}
    for axis, wanted in only.model_dump(exclude_none=True).items():
        if values[axis] not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    return True


def model_of(study: Study, workload: str) -> Model:
    """Return the model of one of the study's workloads; raises StudyError where there is no such thing."""
    return Model.read(study.workloads[workload].module or workload)


def study_runs(study: Study) -> list[Run]:
    """Every configured run: all first repeats, then all second ones, each in the order of the config.

    Raises StudyError where a batch size is the recipe's and the workload cannot be found.
    """
    cells = [cell for cell in _configured_cells(study) if _shares_evenly(study, cell)]
    return [Run(cell, repeat) for repeat in range(1, study.measure.repeats + 1) for cell in cells]


def uneven_cells(study: Study) -> list[Cell]:
    """Return what is configured and makes no run on any host: training whose replicas cannot share the batch evenly."""
    return [cell for cell in _configured_cells(study) if not _shares_evenly(study, cell)]


def _configured_cells(study: Study) -> list[Cell]:
    sizes = {name: _recipe_batch_size(study, name) for name in study.workloads}
    return [
        cell
        for device, settings in study.devices.items()
        for name, workload in study.workloads.items()
        for cell in _workload_cells(device, settings.kind, name, workload, sizes[name])
    ]


def _workload_cells(
    device: str, kind: DeviceKind, name: str, workload: Workload, recipe_batch_size: int
) -> Iterator[Cell]:
    """Every combination of one workload's axes that a device of that kind has."""
    if workload.device is not None and device not in workload.device:
        return
    lengths: Sequence[int | None] = [None] if workload.sequence_length is None else workload.sequence_length
    for backend, precision, batch_size, fraction, sequence_length in product(
        workload.backend,
        workload.precision,
        workload.batch_size or [recipe_batch_size],
        workload.fraction,
        lengths,
    ):
        if backend not in KIND_BACKENDS[kind] or precision not in KIND_PRECISIONS[kind]:
            continue
        yield Cell(device, name, backend, precision, batch_size, float(fraction), sequence_length)


def _shares_evenly(study: Study, cell: Cell) -> bool:
    if cell.batch_size % study.devices[cell.device].replicas == 0:
        return True
    return not model_of(study, cell.workload).has_model


def with_model_settings(study: AnyStudy) -> AnyStudy:
    """Return the study with each model's own backend, PyTorch or JAX, where the config names none."""
    return study.model_copy(update={"workloads": {name: _settled(study, name) for name in study.workloads}})


def _settled(study: Study, name: str) -> Workload:
    workload = study.workloads[name]
    try:
        framework = model_of(study, name).framework
    except StudyError:  # the checks say so
        return workload
    if "backend" in workload.model_fields_set or framework == KERAS:
        return workload
    copy = workload.model_copy(update={"backend": [TORCH if framework == TORCH else JAX]})
    copy.model_fields_set.discard("backend")  # still not named in the config
    return copy


def _recipe_batch_size(study: Study, name: str) -> int:
    """The recipe's batch size, or 0 where the config sets its own and the workload need not be read."""
    return 0 if study.workloads[name].batch_size else model_of(study, name).recipe.batch_size


def workflow_command(study: Study, target: str = "all", *more: str, again: bool = False) -> str:
    """The call that makes a target of this study, or measures `again`. Without `--configfile` it would be of the
    default study, so the study's own config is named unless it is that one."""
    configfile = [] if _is_default(study) else [f"--configfile {study.root}/config.yaml"]
    return " ".join(["whichdevice study", target, *configfile, *more, *["-- --forcerun measure"] * again])


def repeat_failed(study: Study) -> str:
    """The call that repeats the failed runs of a study."""
    return workflow_command(study, "all", "--config retry=failed", again=True)


def make_tables(folder: Path) -> str:
    """The call that makes the tables in this folder of a study."""
    config = folder.parent / "config.yaml"
    return "whichdevice study tables" + (f" --configfile {config}" if config.is_file() else "")


def _is_default(study: Study) -> bool:
    """Whether it is the config that ships; the sources found for its data do not matter, merged records do."""
    data = study.data.model_copy(update={"sources": {}})
    plain = study.model_copy(update={"data": data})
    return all(getattr(plain, name) == value for name, value in Study()) and not Path(study.root, MERGED).is_dir()
