"""Device memory: what a compiled program needs, what does not fit, and the largest batch that does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.forecast.products import Pass, ProgramRequest
from whichdevice.forecast.targets import COMPILER, Target
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.work import Work

UNSUPPORTED = "on the current device"  # in XLA's words for products that a card does not have
# Bytes of a GPU that a program cannot have: the CUDA context with its kernels, and the handles and workspaces of cuBLAS
# and cuDNN. About 0.3 GB (V100) to 0.6 GB (H100) in practice; a program cannot know what else uses the device.
RESERVE = 600e6
# Of the search for the largest batch.
MOST_COMPILES = 8
NEAR = 0.95  # of the memory, or of a batch that was refused: from there a batch counts as the largest
MARGIN = 0.98  # step back after a batch that was refused
STRIDE = 1.5  # most beyond a need in proportion: where a larger batch takes hardly more, a line leads anywhere


class OutOfDeviceMemoryError(StudyError):
    """The program does not fit a device's HBM; both sizes in bytes."""

    def __init__(self, needed: float, available: float) -> None:
        super().__init__(
            f"needs {needed / 2**30:.2f} GiB of HBM on each device, {available / 2**30:.2f} GiB are available: "
            f"{(needed - available) / 2**30:.2f} GiB too much"
        )
        self.needed, self.available = needed, available


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes on one device, by the compiler's memory analysis."""

    arguments: int
    outputs: int
    aliased: int  # outputs that take an argument's place
    temporary: int
    code: int

    @property
    def total(self) -> int:
        """All that lies in HBM at once."""
        return self.arguments + self.outputs - self.aliased + self.temporary + self.code


def memory_need(analysis: Any) -> MemoryNeed:
    """The need by JAX's `Compiled.memory_analysis()`."""
    return MemoryNeed(
        analysis.argument_size_in_bytes,
        analysis.output_size_in_bytes,
        analysis.alias_size_in_bytes,
        analysis.temp_size_in_bytes,
        analysis.generated_code_size_in_bytes,
    )


def compiler_error(said: str) -> StudyError:
    """The error of a compile that failed: a fault of the compiler here, unless the card has no such products."""
    if UNSUPPORTED in said:
        return StudyError(f"{COMPILER} has no such products for it: {said}")
    return StudyError(f"a fault of {COMPILER} here, which says nothing about the device: {said}")


@dataclass(frozen=True)
class LargestBatch:
    """The largest batch that a compile confirmed, and how many compiles it took."""

    batch_size: int
    compiles: int
    reason: str | None = None  # why a much larger one may fit


@dataclass(frozen=True)
class _Point:
    batch: int
    need: float
    fits: bool


def largest_batch(
    need: Callable[[int], float], batch_size: int, first_need: float, available: float, multiple: int
) -> LargestBatch:
    """Find it to within 5 % of the memory or of a refused batch, in bytes on one device, as a multiple of `multiple`.

    `need` compiles a batch and gives the bytes it takes, or raises OutOfDeviceMemoryError, which states them too. The
    second analysis is made at about half the memory, as a small step may lie in on-chip memory altogether. Raises
    StudyError where no batch can be found.
    """
    points = [_Point(batch_size, first_need, first_need <= available)]
    second = _multiple(batch_size * available / 2 / max(first_need, 1.0), multiple)
    candidate: int | None = second if second != batch_size else 2 * batch_size
    while candidate is not None and not _found(points, available) and len(points) <= MOST_COMPILES:
        points.append(_point(need, candidate))
        candidate = _next(points, available, multiple)
    largest, compiles = _largest(points), len(points) - 1
    if largest is None:
        raise StudyError(f"{MOST_COMPILES} compiles found no batch that fits")
    if candidate is None or _found(points, available):
        return LargestBatch(largest.batch, compiles)
    refused = _refused(points, largest.batch)
    end = f"{100 * largest.need / available:.0f} % of the memory taken" if refused is None else f"{refused:,} refused"
    return LargestBatch(largest.batch, compiles, f"a larger batch may fit: {end} after {compiles} compiles")


def passes_of(request: ProgramRequest, target: Target, compiled: Mapping[int, tuple[float, Work]]) -> dict[str, Any]:
    """Return the passes of a training step by the programs that fit; none where the one that was asked for does not."""
    if request.mode != "train" or request.batch_size not in compiled:
        return {}
    times = {
        size: forecast_step(work, target.row, request.mode, target.devices).seconds / size
        for size, (_, work) in sorted(compiled.items())
    }
    passes = [
        Pass(
            batch=size // target.devices,
            checkpointing=False,
            memory_needed=compiled[size][0],
            time=time / times[request.batch_size],
        )
        for size, time in times.items()
    ]
    return {"pass_batch": request.batch_size // target.devices, "passes": passes}


def _point(need: Callable[[int], float], batch: int) -> _Point:
    try:
        return _Point(batch, need(batch), True)
    except OutOfDeviceMemoryError as error:
        return _Point(batch, error.needed, False)


def _largest(points: list[_Point]) -> _Point | None:
    return max((point for point in points if point.fits), key=lambda point: point.batch, default=None)


def _found(points: list[_Point], available: float) -> bool:
    """Whether the largest batch that fits nearly fills the memory, or nearly equals one that was refused."""
    largest = _largest(points)
    if largest is None:
        return False
    refused = _refused(points, largest.batch)
    return largest.need >= NEAR * available or (refused is not None and largest.batch >= NEAR * refused)


def _next(points: list[_Point], available: float, multiple: int) -> int | None:
    """The batch at which the line through the last two points meets the memory, between what fits and what was refused.

    Compilers pad, so that a larger batch may need less: then the middle. None where nothing is left between.
    """
    first, second = points[-2:]
    slope = (second.need - first.need) / (second.batch - first.batch) if second.batch != first.batch else 0.0
    fits = max((point.batch for point in points if point.fits), default=0)
    refused = _refused(points, fits)
    if refused is None:
        if slope <= 0:
            return _multiple(max(second.batch, fits) * STRIDE, multiple) + multiple
        batch = min(second.batch + (available - second.need) / slope, STRIDE * fits * available / second.need)
        return _multiple(batch, multiple) if _multiple(batch, multiple) > fits else None
    if refused <= multiple:
        raise StudyError("not even the smallest batch fits")
    batch = _multiple(second.batch + (available - second.need) / slope, multiple) if slope > 0 else 0
    batch = min(batch, _multiple(refused * MARGIN, multiple))
    if batch <= fits or batch >= refused:
        batch = _multiple((fits + refused) / 2, multiple)
    return batch if fits < batch < refused else None


def _refused(points: list[_Point], fits: int) -> int | None:
    """The smallest batch above `fits` that a compile refused."""
    return min((point.batch for point in points if not point.fits and point.batch > fits), default=None)


def _multiple(value: float, multiple: int) -> int:
    return max(int(value) // multiple, 1) * multiple
