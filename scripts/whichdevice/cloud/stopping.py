"""Signals that end the work and never the cleaning up: they are noted, and looked at where stopping does no harm.

No handler raises. An exception out of a handler can strike between any two instructions, so also between a machine's
making and the note that it was made.
"""

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FIRST_PAUSE, LONGEST_PAUSE, GROWTH = 0.1, 10.0, 1.4  # seconds between two looks at something slow
GRAIN = 0.1  # seconds after which a signal is seen at the latest


class StoppedError(Exception):
    """The person or the system asked to stop."""


class Stopping:
    """What was asked of this process while it worked.

    Work that may be given up at the first signal says `after=0`; bringing back what is measured goes on until the
    second, `after=1`; once `cleaning` is set none ends anything.
    """

    def __init__(self) -> None:
        self.signals = 0
        self.cleaning = False
        self._running: tuple[subprocess.Popen[bytes], int] | None = None

    def check(self, after: int = 0) -> None:
        """Raise StoppedError if more than `after` signals have come."""
        if self.signals > after and not self.cleaning:
            raise StoppedError("stopped")

    def wait(self, seconds: float, after: int = 0) -> None:
        """Sleep, but no longer than until a signal comes; then raise StoppedError."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.check(after)
            time.sleep(min(left, GRAIN))
        self.check(after)

    def until(self, done: Callable[[], bool], seconds: float, after: int = 0) -> bool:
        """Look again and again, at growing distances, until done or out of time; whether it was done."""
        end, pause = time.monotonic() + seconds, FIRST_PAUSE
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.wait(min(pause, left), after)
            pause = min(LONGEST_PAUSE, pause * GROWTH)
        return True

    @contextmanager
    def running(self, process: "subprocess.Popen[bytes]", after: int = 0) -> Iterator[None]:
        """A child that a signal ends; it never outlives this context."""
        self._running = process, after
        try:
            self.check(after)
            yield
            self.check(after)
        finally:
            self._running = None
            if process.poll() is None:
                process.kill()
            process.wait()

    def note(self) -> None:
        """A signal came: end the child at hand if it may be ended."""
        self.signals += 1
        if self._running is not None and self.signals > self._running[1] and not self.cleaning:
            self._running[0].terminate()


@contextmanager
def stopping(say: Callable[[str], None]) -> Iterator[Stopping]:
    """Take SIGINT, SIGTERM and SIGHUP over for a while; outside the main thread, where none arrive, only be there."""
    state = Stopping()

    def handle(number: int, frame: FrameType | None) -> None:
        state.note()
        if state.cleaning:
            say("Still deleting what was made; this ends by itself.")

    if threading.current_thread() is not threading.main_thread():
        yield state
        return
    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield state
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
