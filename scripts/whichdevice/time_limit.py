"""A time limit for what somebody's file does in this process."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from whichdevice.errors import StudyError


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Raise StudyError in the block once it took so long; no limit off the main thread or without SIGALRM.

    Python code is interrupted between two instructions; a single call into native code is not.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise StudyError(f"{what}: still running after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
