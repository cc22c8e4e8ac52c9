"""Runs that cannot fit this host: refused before they start, or stopped before the whole host is short of memory."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from whichdevice.errors import StudyError

LEAST_WEIGHT_BYTES = 8  # of each weight: itself and its gradient, in float32


class RefusedError(StudyError):
    """The run cannot fit this host and was not started."""


def refuse_what_cannot_fit(need: float, available: float) -> None:
    """Raise RefusedError where the estimated need of host memory is above what the host has left; both in bytes."""
    if need > available:
        raise RefusedError(
            f"needs about {need / 1e9:.1f} GB of memory (estimate), this host has {available / 1e9:.1f} GB left; "
            "take a smaller batch_size, sequence_length or fraction"
        )


def built_within(limit: float | None, build: Callable[[], Any]) -> Any:
    """The Keras model that `build` makes, of which weights and gradients fit `limit` bytes; None: no limit.

    Raises RefusedError where they do not, or the framework's own error where it could not even make the weights.
    """
    with memory_within(limit):
        model = build()
    weights = model.count_params()
    if limit is not None and weights * LEAST_WEIGHT_BYTES > limit:
        raise RefusedError(
            f"the model has {weights:,} weights: with gradients {weights * LEAST_WEIGHT_BYTES / 1e9:,.0f} GB of "
            f"memory, this host has {limit / 1e9:.1f} GB left; make the model smaller"
        )
    return model


@contextmanager
def memory_within(limit: float | None) -> Iterator[None]:
    """While it lasts, this process may take at most `limit` bytes more; None: no limit.

    What asks for more fails as on a host without memory, and the run is `out_of_memory`. Without effect on macOS, whose
    kernel does not count.
    """
    if limit is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _data_in_use() + int(limit)
    if soft != resource.RLIM_INFINITY:
        wanted = min(wanted, soft)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_in_use() -> int:
    """Bytes of private memory that the process has mapped, as the kernel counts them for RLIMIT_DATA."""
    try:
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")), 0)
