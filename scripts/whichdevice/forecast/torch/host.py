"""How long this machine's PyTorch takes to send off a kernel: the floor under a step on any GPU.

    host_time(1200)     # seconds for a step of so many kernels

PyTorch sends each operation off from Python and autograd; a GPU adds a launch. On tiny tensors the CPU computes next to
nothing, so that a step of them takes what sending it off takes. A rented machine's CPU is another one: its time differs
by time_model.py's MEASURED_HOST_SD.
"""

import time
from functools import cache

import torch
from torch import nn

from whichdevice.forecast.time_model import LAUNCH

LAYERS, WIDTH = 50, 8
KERNELS = 6  # of a layer: product, activation, its gradient, those of input and weight, the sum of the bias's
REPEATS = 7


def host_time(kernels: float) -> float:
    """Seconds in which a machine like this one sends off a step of so many kernels."""
    return kernels * (_dispatch() + LAUNCH)


@cache
def _dispatch() -> float:
    """Seconds of one kernel, from the fastest of some steps of tiny layers; the first one warms up."""
    model = nn.Sequential(*(layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))
    batch, times = torch.ones(2, WIDTH), []
    for _ in range(1 + REPEATS):
        begin = time.perf_counter()
        model.zero_grad()
        model(batch).sum().backward()
        times.append(time.perf_counter() - begin)
    return min(times[1:]) / (LAYERS * KERNELS)
