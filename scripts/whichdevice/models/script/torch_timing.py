"""The seconds of a PyTorch script's step on this machine, where it trains for a few."""

import statistics
import time
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from whichdevice.models.framework import TORCH
from whichdevice.models.script.found import Found, Script
from whichdevice.models.script.periods import TIMED_PERIODS, TIMED_SECONDS
from whichdevice.models.script.torch_answers import answer
from whichdevice.models.script.torch_loaders import Loaders


class Clock:
    """Times the steps of a script that trains for real, without what its loaders take, and ends it after some."""

    def __init__(self, watching: Any, loaders: Loaders, has_gpu: bool) -> None:
        self._watching, self._has_gpu, self._loaders = watching, has_gpu, loaders
        self._ends: dict[Any, list[float]] = {}  # seconds of work until the ends of an optimiser's steps
        self._began = time.perf_counter()
        loaders.watch(watching.replace)
        watching.replacements.callback(register_optimizer_step_post_hook(self._ended).remove)
        if not has_gpu:
            watching.recorder.resting += 1
            answer(watching)

    def _ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """An optimiser has stepped."""
        if self._watching.run.over:
            return
        if not self._ends:
            self._watching.write_nothing()
            self._began = time.perf_counter()
        if self._has_gpu:
            torch.cuda.synchronize()
        now = time.perf_counter()
        self._ends.setdefault(optimizer, []).append(now - self._loaders.seconds)
        least = min(map(len, self._ends.values()))
        if least > TIMED_PERIODS or (now - self._began > TIMED_SECONDS and least > 1):
            self._watching.run.stop(self._script)

    def _script(self) -> Script:
        ends = min(self._ends.values(), key=len)
        seconds = statistics.median(end - begin for begin, end in pairwise(ends))
        return Script(Found(TORCH, 1), SimpleNamespace(seconds=seconds))
