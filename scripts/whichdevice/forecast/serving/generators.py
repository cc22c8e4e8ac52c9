"""How long a GPU takes for images or videos of a model, one after the other, and what is in its memory.

    one = Generating(generator("hf:black-forest-labs/FLUX.1-dev"), hardware_rows()["L40S"])
    one.seconds(), one.memory(), one.fits

diffusers runs them in 16 bits, without a compiler. Kernels are traced (models/generators.json) and timed as for every
PyTorch model (time_model.py). Attention is timed apart, as it decides over thousands of tokens: FlashAttention-2, which
PyTorch runs, multiplies on every chip since Ampere at Ampere's rate in a clock. A few factors are fitted to published
times (fit/generators.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from whichdevice.base.files import json_of
from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.forecast.joint import normal
from whichdevice.forecast.serving.queue import PERCENT_IN_TIME, WARM
from whichdevice.forecast.serving.server import CONTEXT_BYTES, memory_of
from whichdevice.forecast.time_model import Peaks, read_constants, seconds_by_class, typical_host
from whichdevice.forecast.work import Item, Work
from whichdevice.models.diffusion import Diffusion, Kernels

GENERATOR_CONSTANTS = Path(__file__).with_name("generators.json")
USABLE = 0.95  # of the memory
MIN_CAPABILITY = 7.0  # of which products of 16 bits are fast
MULTIPLIED = 2048  # operations of a multiprocessor in a clock by the instructions of Ampere: its white paper
EXPONENTIALS = 16  # of a multiprocessor in a clock, of Volta to Blackwell: CUDA's programming guide
SHARP = 4  # how sharply the longer of the device's and the host's time decides
REQUESTS = 800  # simulated at each rate
LOADS = np.array([0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.98])  # of the rate at full load


@dataclass(frozen=True)
class Generating:
    """One model on one GPU of a row; `steps`, `height` and `width` are the authors' where they are None."""

    model: Diffusion
    row: HardwareRow
    steps: int | None = None
    height: int | None = None
    width: int | None = None

    @property
    def runs(self) -> bool:
        """Whether it is a GPU of NVIDIA with fast products of 16 bits: times are of no others."""
        is_nvidia = self.row.kind == "gpu" and self.row.vendor == "NVIDIA"
        return is_nvidia and float(self.row.compute_capability or 0) >= MIN_CAPABILITY

    def parts(self, images: int = 1) -> dict[str, float]:
        """Return seconds of so many images together, before the factors: of the device by kind, of host and decoder."""
        made, peaks = self.model.work(self.steps, self.height, self.width, images), Peaks.of(self.row)
        call, decode = work_of(made.call), work_of(made.decode)
        attention = sum(one.operations * one.count for one in call.items if one.kind == "attention")
        clocks = (self.row.sms or 1) * (self.row.clock_ghz or 1.0) * 1e9
        seconds = {
            "attention": attention / min(peaks.operations["half"], MULTIPLIED * clocks),
            "exponentials": attention / (4 * self.model.head) / (EXPONENTIALS * clocks),
            "others": _without_attention(call, peaks),
            "host": typical_host(call, read_constants()["eager"])[0],
        }
        return {name: made.calls * time for name, time in seconds.items()} | {
            "decode": _without_attention(decode, peaks)
        }

    def seconds(self) -> float:
        """Return the seconds of one image or video."""
        return whole(self.parts(), json_of(GENERATOR_CONSTANTS)["factors"])

    @property
    def tested(self) -> bool:
        """Whether published times are of this chip."""
        return self.row.device in json_of(GENERATOR_CONSTANTS)["chips"]

    def slowness(self, draws: int, seed: int = 0) -> np.ndarray:
        """Return draws of how many times longer than forecast it takes: by its model, and by its chip."""
        spread = json_of(GENERATOR_CONSTANTS)["sd"]
        logs = spread["model"] * normal(draws, seed, "shared", "generators", self.model.name)
        chip = 0.0 if self.tested else spread["chip"]
        return np.asarray(np.exp(logs + chip * normal(draws, seed, "own", "generators", self.row.device)))

    @cached_property
    def available(self) -> float:
        """Bytes of the device."""
        return USABLE * memory_of(self.row)

    def memory(self) -> dict[str, float]:
        """Return bytes by part: weights of the denoiser, of what reads the words, of the decoder, and values."""
        model = self.model
        values = model.values_bytes(self.height or model.height, self.width or model.width)
        weights = {name: 2.0 * count for name, count in model.parameters.items()}
        return weights | {"values": values + CONTEXT_BYTES}

    @property
    def fits(self) -> bool:
        """Whether all parts fit together."""
        return sum(self.memory().values()) <= self.available


def work_of(kernels: Mapping[str, Kernels]) -> Work:
    """Return kernels by kind and number format as work that PyTorch sends off one by one."""
    items = []
    for name, (operations, nbytes, count) in kernels.items():
        kind, _, precision = name.rpartition(" ")
        items.append(Item(kind, precision, operations / count, nbytes / count, count))  # type: ignore[arg-type]
    return Work("gpu", tuple(items), software="eager")


def _without_attention(work: Work, peaks: Peaks) -> float:
    """Seconds of a device for all kernels but attention's products."""
    parts = seconds_by_class(work, peaks, read_constants()["eager"]["factors"])
    return sum(seconds for name, seconds in parts.items() if not name.startswith("attention"))


def whole(parts: Mapping[str, float], factors: Mapping[str, float]) -> float:
    """Return the sum of the parts' seconds: of the device or of the host, whichever is longer, and of the decoder."""
    times = {name: seconds * factors[name] for name, seconds in parts.items()}
    device = times["attention"] + times["exponentials"] + times["others"]
    return float((device**SHARP + times["host"] ** SHARP) ** (1 / SHARP) + times["decode"])


def capacity(seconds: float, within: float, slow: np.ndarray) -> np.ndarray:
    """Return the most requests a second that are made in time, one after the other; 0: none is in time.

    `seconds` is the time of one, `slow` how many times longer it takes: a number for each draw of the error.
    """
    place = np.searchsorted(_waits(), within / (seconds * slow), "right")
    most = LOADS[np.maximum(place, 1) - 1] / (seconds * slow)
    return np.asarray(np.where(place > 0, most, 0.0))


@cache
def _waits() -> np.ndarray:
    """How long nine in ten requests take from arrival to end at each of LOADS, in times of one request alone."""
    random = np.random.default_rng(0)
    gaps = -np.log1p(-(random.permutation(REQUESTS) + 0.5) / REQUESTS)  # exponential, stratified
    places = np.arange(REQUESTS)
    times = []
    for load in LOADS:
        arrivals = np.cumsum(gaps) / load
        ends = np.maximum.accumulate(arrivals - places) + places + 1  # each begins when it has come and the last ended
        times.append(np.percentile((ends - arrivals)[int(WARM * REQUESTS) :], PERCENT_IN_TIME))
    return np.maximum.accumulate(times)
