"""How long a GPU takes for images or videos of a model, one after the other, and what is in its memory.

    one = Generating(generator("hf:black-forest-labs/FLUX.1-dev"), hardware_rows()["L40S"])
    one.seconds(), one.memory(), one.fits

As diffusers runs them, in 16 bits, without a compiler. The time is the sum over kinds of work of the seconds at the
sheet's peaks, each times a factor that is fitted to published times (fit/generators.py).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.config.hardware import HardwareRow
from whichdevice.forecast.joint import normal
from whichdevice.forecast.serving.server import CONTEXT_BYTES, memory_of
from whichdevice.forecast.time_model import Peaks
from whichdevice.models.generators import Generator

CONSTANTS = Path(__file__).with_name("generators.json")
USABLE = 0.95  # of the memory
# Bytes of values that are alive at once, by pixels of an image or by tokens of a pass, each with its width.
DECODED, ALIVE = 1200.0, 24.0
MAX_DECODED = 1024**2 * 4  # pixels that are decoded at once: of a video some frames
MIN_CAPABILITY = 7.0  # of which products of 16 bits are fast
EXPONENTIALS = 16  # of a multiprocessor in a clock, of Volta to Blackwell: CUDA's programming guide
HEAD = 256  # operations of attention for each exponential: 4 for each of 64 values
TESTED, LIKE_OTHERS = "published images on this chip", "published images on other chips"


@dataclass(frozen=True)
class Generating:
    """One model on one GPU of a row; `steps`, `height` and `width` are the authors' where they are None."""

    model: Generator
    row: HardwareRow
    steps: int | None = None
    height: int | None = None
    width: int | None = None

    @property
    def runs(self) -> bool:
        """Whether it is a GPU of NVIDIA with fast products of 16 bits: times are of no others."""
        capability = self.row.compute_capability or ""
        return self.row.kind == "gpu" and not capability.startswith("gfx") and float(capability or 0) >= MIN_CAPABILITY

    def at_peaks(self) -> dict[str, float]:
        """Return seconds of one image at the sheet's peaks by kind of work; `steps` counts layers of all passes."""
        work, peaks = self.model.work(self.steps, self.height, self.width), Peaks.of(self.row)
        layers = sum(one.layers for one in self.model.attention)
        half = peaks.operations["half"]
        special = (self.row.sms or 1) * (self.row.clock_ghz or 1.0) * 1e9 * EXPONENTIALS
        return {
            "products": work.products / half,
            "attention": work.attention / half,
            "exponentials": work.attention / HEAD / special,
            "values": 2 * work.values / peaks.bandwidth,
            "weights": 2 * self.model.parameters["denoiser"] * work.passes / peaks.bandwidth,
            "decode": work.decode / half,
            "steps": layers * work.passes,
        }

    def seconds(self) -> float:
        """Return the seconds of one image or video."""
        factors = read_constants()["factors"]
        return sum(seconds * factors[name] for name, seconds in self.at_peaks().items())

    @property
    def tested(self) -> bool:
        """Whether published times are of this chip."""
        return self.row.device in read_constants()["chips"]

    def slowness(self, draws: int, seed: int = 0) -> np.ndarray:
        """Return draws of how many times longer than forecast it takes: by its model, and by its chip."""
        spread = read_constants()["sd"]
        logs = spread["model"] * normal(draws, seed, "shared", "generators", self.model.name)
        chip = 0.0 if self.tested else spread["chip"]
        return np.asarray(np.exp(logs + chip * normal(draws, seed, "own", "generators", self.row.device)))

    @cached_property
    def available(self) -> float:
        """Bytes of the device."""
        return USABLE * memory_of(self.row)

    def memory(self) -> dict[str, float]:
        """Return bytes by part: weights of the denoiser, of what reads the words, of the decoder, and values."""
        model, height, width = self.model, self.height or self.model.height, self.width or self.model.width
        pixels = min(height * width * model.frames, max(height * width, MAX_DECODED))
        widest = max(one.width / one.merged for one in model.attention)
        seen = (model.tokens(height, width) + model.words) * model.passes
        values = max(DECODED * pixels, ALIVE * seen * widest)
        weights = {name: 2.0 * count for name, count in model.parameters.items()}
        return weights | {"values": values + CONTEXT_BYTES}

    @property
    def fits(self) -> bool:
        """Whether all parts fit together."""
        return sum(self.memory().values()) <= self.available


@cache
def read_constants() -> Mapping[str, Any]:
    """Return the constants that fit/generators.py writes."""
    return dict(json.loads(CONSTANTS.read_text(encoding="utf-8")))
