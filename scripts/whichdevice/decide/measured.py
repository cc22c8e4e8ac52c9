"""What an answer reads of a measured cell: the processes of one step on one device, as one number."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class MeasuredCell:
    """A step on a device that was run. Times in seconds, memory in bytes; None: not known."""

    device: str
    workload: str
    backend: str
    precision: str
    batch_size: int
    fraction: float = 1.0  # of the training data
    sequence_length: int | None = None
    kind: str = "cpu"
    replicas: int | None = None
    module: str | None = None
    mode: str | None = None  # None: a single operation
    unit: str | None = None
    status: str = "ok"  # what became of its processes
    n_timed: int = 0  # processes behind the speed
    n_disturbed: int = 0
    n_too_large: int = 0  # that ran out of memory or were refused for it
    step_time: float | None = None  # geometric mean over processes
    step_time_low: float | None = None  # ends of its 95 % interval
    step_time_high: float | None = None
    throughput: float | None = None
    prefill_time: float | None = None
    prompt: int | None = None
    training_examples: int | None = None
    peak_host: float | None = None
    peak_device: float | None = None
    host_memory: float | None = None
    device_name: str | None = None
    pipeline: str | None = None
    pipeline_rate: float | None = None
    pipeline_core_rate: float | None = None
    pipeline_workers: int | None = None
    written_rate: float | None = None
    written_workers: int | None = None
    usd_per_hour: float | None = None
    price: str | None = None
    watts: float | None = None  # of the device; joules are of a million units
    joules_per_million: float | None = None
    host_joules_per_million: float | None = None
    memory_joules_per_million: float | None = None


def same(cells: Iterable[MeasuredCell], **values: Any) -> list[MeasuredCell]:
    """Return the cells that have these values."""
    return [cell for cell in cells if all(getattr(cell, name) == value for name, value in values.items())]


def chosen_cells(cells: Sequence[MeasuredCell]) -> Iterator[MeasuredCell]:
    """Yield the fastest cell of each device, of those with enough good repeats and the largest share of the data.

    Enough is half of the most, and two where any has two: a cell whose other repeats failed may be lucky.
    """
    for device in dict.fromkeys(cell.device for cell in cells):
        of_device = same(cells, device=device)
        timed = [cell for cell in of_device if cell.n_timed and cell.step_time is not None]
        largest = max((cell.fraction for cell in timed), default=0.0)
        timed = [cell for cell in timed if cell.fraction == largest]
        most = max((cell.n_timed for cell in timed), default=0)
        enough = [cell for cell in timed if 2 * cell.n_timed >= most and (cell.n_timed >= 2 or most < 2)]
        yield min(enough, key=lambda cell: cell.step_time or 0.0, default=of_device[0])
