"""Waiting for a moment in which other guests of the host leave our processors alone.

The hypervisor only says what it took while we asked for the processors, so a probe asks for all of them. What follows
is chosen by what was seen before it, never by its own outcome; the host may still change while it runs.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from whichdevice.host.noise import STEAL_BOUND
from whichdevice.host.processor_time import processor_time, steal_share

PROBE, PAUSE = 2.0, 10.0  # s
LOAD = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


class QuietHost:
    """Waits before each of many measurements, for at most `patience` seconds in all; then lets everything pass."""

    def __init__(self, patience: float, stolen: Callable[[], float] | None = None) -> None:
        self.waited = 0.0  # s
        self.refused = 0  # measurements that began on a busy host, patience being at an end
        self._patience, self._stolen = patience, stolen or stolen_share

    def wait(self) -> None:
        """Return when a probe sees at most `STEAL_BOUND` taken, or when patience is at an end."""
        if self._patience <= 0:
            return
        while self._stolen() > STEAL_BOUND:
            if self.waited >= self._patience:
                self.refused += 1
                return
            time.sleep(PAUSE)
            self.waited += PROBE + PAUSE

    def __str__(self) -> str:
        return f"Waited {self.waited / 60:.0f} min for a quiet host; {self.refused} processes began on a busy one"


def stolen_share(seconds: float = PROBE) -> float:
    """Share of our cores' time that the hypervisor takes while an endless loop on each asks for it; 0 if untold."""
    with ExitStack() as loops:
        for core in sorted(os.sched_getaffinity(0)):
            loops.enter_context(load_on(core))
        time.sleep(PROBE / 4)  # they have started
        before = processor_time()
        time.sleep(seconds)
        return steal_share(before, processor_time()) or 0.0


@contextmanager
def load_on(core: int) -> Iterator[None]:
    """Somebody else's endless loop on one core."""
    process = subprocess.Popen([sys.executable, "-c", LOAD, str(core)])
    try:
        yield
    finally:
        process.kill()
        process.wait()
