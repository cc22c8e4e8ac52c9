"""Cells and runs: what one is, and the path that names it."""

import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from whichdevice.base.errors import StudyError

if TYPE_CHECKING:
    from whichdevice.study.config.model import Only

# Axes that are left out of a cell's name at these values.
AXIS_DEFAULTS: dict[str, Any] = {"fraction": 1.0, "sequence_length": None}
AXIS_TYPES: dict[str, Any] = {"fraction": float, "sequence_length": int}
CELL = re.compile(r"^(?P<backend>[a-z]+)-(?P<precision>[a-z0-9_]+)-b(?P<batch_size>\d+)(?P<axes>(-[a-z_]+=[^-/=]+)*)$")
REPEAT = re.compile(r"r[1-9]\d*")
KEY = re.compile(r"[0-9a-f]{12}")  # the last folder of a record's path: what was measured, as a hash


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


def selected(run: Run, only: "Only") -> bool:
    """Whether a call narrowed by `only` measures this run."""
    values = {**asdict(run.cell), "repeat": run.repeat}
    for axis, wanted in only.model_dump(exclude_none=True).items():
        if values[axis] not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    return True
