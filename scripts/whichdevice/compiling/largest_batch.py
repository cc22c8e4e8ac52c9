"""The largest batch that fits a device: extrapolated from two memory analyses, confirmed by a compile."""

from collections.abc import Callable
from dataclasses import dataclass

from whichdevice.compiling.memory import OutOfDeviceMemoryError
from whichdevice.errors import StudyError

MOST_COMPILES = 5
FULL = 0.95  # share of the memory from which a batch counts as the largest
MARGIN = 0.98  # step back after a batch that was refused
STRIDE = 1.5  # step forward where a larger batch needed no more, as a compiler recomputes rather than store


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
    """Find it to within 5 % of the memory; bytes on one device, batches are multiples of `multiple`.

    `need` compiles a batch and gives the bytes it takes, or raises OutOfDeviceMemoryError, which states them too. The
    second analysis is made at about half the memory, as a small step may lie in on-chip memory altogether. Raises
    StudyError where no batch can be found.
    """
    points = [_Point(batch_size, first_need, first_need <= available)]
    second = _multiple(batch_size * available / 2 / max(first_need, 1.0), multiple)
    candidate = second if second != batch_size else 2 * batch_size
    for _ in range(MOST_COMPILES):
        points.append(_point(need, candidate))
        if points[-1].fits and points[-1].need >= FULL * available:
            break
        following = _next(points, available, multiple)
        if following is None:
            break
        candidate = following
    fitting = [point for point in points if point.fits]
    if not fitting:
        raise StudyError(f"{MOST_COMPILES} compiles found no batch that fits")
    largest, compiles = max(fitting, key=lambda point: point.batch), len(points) - 1
    if len(fitting) < len(points) or largest.need >= FULL * available:
        return LargestBatch(largest.batch, compiles)
    share = f"{100 * largest.need / available:.0f} %"
    return LargestBatch(
        largest.batch, compiles, f"a larger batch may fit: after {compiles} compiles it takes {share} of the memory"
    )


def _point(need: Callable[[int], float], batch: int) -> _Point:
    try:
        return _Point(batch, need(batch), True)
    except OutOfDeviceMemoryError as error:
        return _Point(batch, error.needed, False)


def _next(points: list[_Point], available: float, multiple: int) -> int | None:
    """Where the line through the last two points meets the memory, between what fits and what was refused.

    Compilers pad, so that a larger batch may need less: then the middle. None where nothing is left between.
    """
    first, second = points[-2:]
    slope = (second.need - first.need) / (second.batch - first.batch) if second.batch != first.batch else 0.0
    fits = max((point.batch for point in points if point.fits), default=0)
    refused = min((point.batch for point in points if not point.fits and point.batch > fits), default=None)
    if refused is None:
        if slope <= 0:
            return _multiple(max(second.batch, fits) * STRIDE, multiple) + multiple
        found = _multiple(second.batch + (available - second.need) / slope, multiple)
        return found if found > fits else None
    if refused <= multiple:
        raise StudyError("not even the smallest batch fits")
    found = _multiple(second.batch + (available - second.need) / slope, multiple) if slope > 0 else 0
    found = min(found, _multiple(refused * MARGIN, multiple))
    if found <= fits or found >= refused:
        found = _multiple((fits + refused) / 2, multiple)
    return found if fits < found < refused else None


def _multiple(value: float, multiple: int) -> int:
    return max(int(value) // multiple, 1) * multiple
