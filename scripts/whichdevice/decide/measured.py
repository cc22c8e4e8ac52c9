"""A measured cell as an answer reads it: the processes of one step on one device, as one number."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whichdevice.models.pipeline import best_and_written

if TYPE_CHECKING:
    from whichdevice.measure.record import Energy, Record


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
    watts: float | None = None  # of the device
    watts_beside: float = 0.0  # of its host's processors and memory


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


def cell_of(records: Sequence["Record"]) -> MeasuredCell:
    """Return the cell of one step's processes on one device, as table `summary` has it.

    A process that its time limit ended while it timed its first windows counts alone, where no other one has a time.
    """
    first = records[0]
    asked, facts, generated = first.asked, first.workload, first.generated
    timed = [one for one in records if one.status == "ok" or (one.status == "timed_out" and one.steady.throughput)]
    step_times = [one.steady.seconds / one.steady.steps for one in timed if one.steady.steps]
    throughputs = [one.steady.throughput for one in timed if one.steady.throughput]
    if not step_times and first.status == "timed_out" and first.cold.warm_up and generated is None:
        steps, seconds = first.cold.warm_up[-1]
        timed, step_times, throughputs = [first], [seconds / steps], [asked.batch_size * steps / seconds]
    low, high = interval(step_times)
    prompts = [one.generated.prefill.step_time for one in timed if one.generated and one.generated.prefill.step_time]
    devices = [one.memory.peak_device for one in timed if one.memory.peak_device]
    metered = [(watts, one.energy.beside) for one in timed if (watts := steady_watts(one.energy))]
    beside = [sum(steady_watts(part) or 0.0 for part in parts.values()) for _, parts in metered]
    pipeline = next((one.pipeline for one in records if one.pipeline is not None and one.pipeline.rates), None)
    return MeasuredCell(
        device=asked.device, workload=asked.workload, backend=asked.backend, precision=asked.precision,
        batch_size=asked.batch_size, fraction=asked.fraction, sequence_length=asked.sequence_length, kind=asked.kind,
        replicas=asked.replicas, module=asked.module, mode=asked.mode, unit=facts.unit if facts else None,
        status=next((one.reason or one.status for one in records if one.status != "ok"), "ok"),
        n_timed=len(timed), n_disturbed=sum(one.noise.disturbed for one in timed),
        n_too_large=sum(one.status in ("out_of_memory", "refused") for one in records),
        step_time=_mean(step_times), step_time_low=low, step_time_high=high, throughput=_mean(throughputs),
        prefill_time=_mean(prompts), prompt=generated.prompt if generated else None,
        training_examples=(facts.training_examples or None) if facts else None,
        peak_host=max((one.memory.peak_host or 0.0 for one in timed), default=None),
        peak_device=max(devices, default=None),
        host_memory=first.machine.memory, device_name=first.machine.device_name,
        watts=_mean([watts for watts, _ in metered]), watts_beside=sum(beside) / len(beside) if beside else 0.0,
        **({} if pipeline is None else {"pipeline": pipeline.origin} | best_and_written(pipeline.rates)),
    )  # fmt: skip


def interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the ends of the 95 % t-interval of a geometric mean; None for fewer than two values."""
    count = len(values)
    if count < 2:
        return None, None
    logs = [math.log(value) for value in values]
    middle = sum(logs) / count
    variance = sum((one - middle) ** 2 for one in logs) / (count - 1)
    half = t_quantile(0.975, count - 1) * math.sqrt(variance / count)
    return math.exp(middle - half), math.exp(middle + half)


def t_quantile(share: float, degrees: int) -> float:
    """Return Student's t below which a share lies; of one and two degrees, as `ask` has, without SciPy's import."""
    if degrees == 1:
        return math.tan(math.pi * (share - 0.5))
    if degrees == 2:
        return (2 * share - 1) / math.sqrt(2 * share * (1 - share))
    from scipy.special import stdtrit

    return float(stdtrit(degrees, share))


def _mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean; None without values."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def steady_watts(energy: "Energy | None") -> float | None:
    """Return watts in steady state, where a meter was read around it."""
    part = energy.parts.get("steady") if energy else None
    return part.joules / part.seconds if part and part.seconds else None
