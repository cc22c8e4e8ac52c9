"""Runs that cannot fit this host are refused before they start."""

from whichdevice.errors import StudyError


class RefusedError(StudyError):
    """The run cannot fit this host and was not started."""


def refuse_what_cannot_fit(need: float, available: float) -> None:
    """Raise RefusedError where the estimated need is above what the host has left; both in bytes."""
    if need > available:
        raise RefusedError(
            f"needs about {need / 1e9:.1f} GB of memory (estimate), {available / 1e9:.1f} GB are available; "
            "take a smaller batch_size or sequence_length"
        )
