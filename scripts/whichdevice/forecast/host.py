"""How long this machine takes to send a step off: the floor under a step on any GPU. Imports no framework.

    host_time(work, arrays=300, fit=True)     # seconds; None where it cannot be measured here

PyTorch sends each operation off from Python and autograd. A call of a compiled step hands its arrays over; Keras' `fit`
makes a batch, counts and keeps the state around it. A GPU adds a launch of each kernel. On tiny tensors the CPU
computes next to nothing, so that a step of them takes what sending it off takes.

The rates are measured once on a machine and for a software, by the first process that counts a step of it: all devices
of a question have the same. A rented machine's CPU is another one: its time differs by time_model.py's
MEASURED_HOST_SD.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from whichdevice.base.cpu import cpu_model, usable_cores
from whichdevice.base.files import write_atomically
from whichdevice.base.identity import installed_versions, machine_identity
from whichdevice.base.processes import quick_imports
from whichdevice.forecast.time_model import LAUNCH
from whichdevice.forecast.work import Work

FOLDER = Path("results/programs/hosts")
SOFTWARE_PACKAGES = {"xla": ("jax", "jaxlib", "keras"), "eager": ("torch",)}  # by software
REPEATS, SECONDS = 7, 0.3  # at least; other programs share the processor
LAYERS, WIDTH = 50, 8  # of PyTorch
KERNELS = 6  # of a layer: product, activation, gradients of activation, input and weight, the sum for the bias
ARRAYS, STEPS = 64, 20  # of JAX
_known: dict[Path, Mapping[str, float]] = {}
FIT_STEPS, FIT_ARRAYS = 64, 12  # of a layer: two weights, an optimiser's two moments of each, and counters


def host_time(work: Work, arrays: int | None = None, fit: bool = False) -> float | None:
    """Seconds in which a machine like this one sends a step off; None where it is not known.

    A compiled step has so many arrays, and Keras' `fit` or a plain call around it; a traced one its kernels alone.
    """
    if work.is_compiled and arrays is None:
        return None
    if not (took := rates("xla" if work.is_compiled else "eager")):
        return None
    if not work.is_compiled:
        return (took["kernel"] + LAUNCH) * work.sent
    return (
        (arrays or 0) * took["array"] + fit * took["fit"] + (LAUNCH * work.kernels if work.platform == "gpu" else 0.0)
    )


def rates(software: str) -> Mapping[str, float]:
    """Seconds of a `kernel` of PyTorch, or of an `array` and a `fit` of a compiled step; empty if never measured."""
    path = _path(software)
    if path not in _known:
        with suppress(OSError, ValueError):
            _known[path] = dict(json.loads(path.read_text(encoding="utf-8")))
    return _known.get(path, {})


def measure(software: str) -> None:
    """Measure the rates in this process, which has the framework, unless they are known or that fails."""
    if not rates(software):
        with suppress(Exception):  # of a framework, or a folder that cannot be written: a typical host is taken then
            measured = json.dumps(of_pytorch() if software == "eager" else of_compiled())
            if not _path(software).exists():  # else another process was faster, and all have the same
                write_atomically(measured, _path(software))


@cache
def _path(software: str) -> Path:
    versions = installed_versions(SOFTWARE_PACKAGES[software])
    key = [software, machine_identity(), cpu_model(), usable_cores(), sys.version, versions]
    return FOLDER / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]}.json"


def of_pytorch() -> dict[str, float]:
    """Seconds of a kernel of a step of tiny layers."""
    import torch
    from torch import nn

    model = nn.Sequential(*(layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))
    batch = torch.ones(2, WIDTH)

    def step() -> None:
        model.zero_grad()
        model(batch).sum().backward()

    return {"kernel": _fastest(step) / (LAYERS * KERNELS)}


def of_compiled() -> dict[str, float]:
    """Seconds of each array of a call whose result takes its arguments' memory, and what `fit` adds to a call."""
    with quick_imports("tensorflow", "torch"):
        import jax
        import keras
        import numpy as np

    step = jax.jit(lambda state: [array + 1 for array in state], donate_argnums=(0,))
    state = [jax.numpy.zeros(()) for _ in range(ARRAYS)]

    def run() -> None:
        nonlocal state
        for _ in range(STEPS):
            state = step(state)
        jax.block_until_ready(state)

    array = _fastest(run) / (STEPS * ARRAYS)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    inputs = np.zeros((FIT_STEPS, 1), "float32")
    seconds = _fastest(lambda: model.fit(inputs, inputs, batch_size=1, shuffle=False, verbose=0))
    return {"array": array, "fit": max(0.0, seconds / FIT_STEPS - FIT_ARRAYS * array)}


def _fastest(run: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs; the first one warms up."""
    run()
    times = list[float]()
    while len(times) < REPEATS or sum(times) < SECONDS:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)
