"""Runs that cannot fit this host are refused before they start."""

from whichdevice.errors import StudyError


class RefusedError(StudyError):
    """The run cannot fit this host and was not started."""


def refuse_what_cannot_fit(need: float, available: float) -> None:
    """Raise RefusedError where the estimated need of host memory is above what the host has left; both in bytes."""
    if need > available:
        raise RefusedError(
            f"needs about {need / 1e9:.1f} GB of memory (estimate), this host has {available / 1e9:.1f} GB left; "
            "take a smaller batch_size, sequence_length or fraction"
        )
