"""Waiting for a moment in which other guests of the host leave our processors alone.

A probe works on all processors at once, each with a thread of its own. It tells what the hypervisor took meanwhile, and
how fast the slowest of them was: neighbours on the same physical cores slow ours without taking any time. What follows
is chosen by what was seen before it, never by its own outcome; the host may still change while it runs.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from whichdevice.measure.machine.noise import SLOWDOWN_BOUND, STEAL_BOUND, processor_time, steal_share

PROBE, PAUSE = 1.0, 10.0  # s
SIZE, COUNT = 96, 64  # products too small for BLAS to share out among threads of its own
LOAD = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


class Probe(NamedTuple):
    """What was seen of the processors, all at work."""

    stolen: float  # share of their time that the hypervisor took; 0 if untold
    seconds: float  # median of the fixed work on the slowest of them


class QuietHost:
    """Waits before each of many measurements, for at most `patience` seconds in all; then lets everything pass."""

    def __init__(self, patience: float, probe: Callable[[], Probe] | None = None) -> None:
        self.waited = 0.0  # s
        self.refused = 0  # measurements that began on a busy host, patience being at an end
        self._patience, self._probe = patience, probe or probed
        self._fastest = float("inf")

    def wait(self) -> bool:
        """Return when the host is quiet, or when patience is at an end; whether it was quiet. Without patience: no."""
        if self._patience <= 0:
            return False
        while not self.is_quiet():
            if self.waited >= self._patience:
                self.refused += 1
                return False
            time.sleep(PAUSE)
            self.waited += PROBE + PAUSE
        return True

    def is_quiet(self) -> bool:
        """Whether a probe sees little taken, and the speed of the fastest one so far; False without patience."""
        if self._patience <= 0:
            return False
        seen = self._probe()
        self._fastest = min(self._fastest, seen.seconds)
        return seen.stolen <= STEAL_BOUND and seen.seconds <= self._fastest * (1 + SLOWDOWN_BOUND)

    def __str__(self) -> str:
        return f"Waited {self.waited / 60:.0f} min for a quiet host; {self.refused} processes began on a busy one"


def probed(seconds: float = PROBE) -> Probe:
    """Work on all of our cores for so long."""
    cores = sorted(os.sched_getaffinity(0))
    start, medians = threading.Barrier(len(cores)), dict.fromkeys(cores, 0.0)

    def work(core: int) -> None:
        os.sched_setaffinity(0, {core})  # of this thread
        small = np.ones((SIZE, SIZE), np.float32)
        left, product = np.broadcast_to(small, (COUNT, SIZE, SIZE)), np.empty((COUNT, SIZE, SIZE), np.float32)
        start.wait()
        took, end, now = [], time.perf_counter() + seconds, time.perf_counter()
        while now < end:  # none counts that ended when another core may have been at rest
            began = now
            np.matmul(left, small, out=product)
            now = time.perf_counter()
            took.append(now - began)
        medians[core] = float(np.median(took[1:-1] or took))

    threads = [threading.Thread(target=work, args=(core,)) for core in cores]
    before = processor_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Probe(steal_share(before, processor_time()) or 0.0, max(medians.values()))


@contextmanager
def load_on(core: int) -> Iterator[None]:
    """Somebody else's endless loop on one core."""
    process = subprocess.Popen([sys.executable, "-c", LOAD, str(core)])
    try:
        yield
    finally:
        process.kill()
        process.wait()
