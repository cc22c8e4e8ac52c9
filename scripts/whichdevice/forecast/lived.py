"""How long steps take as people run them: Python between kernels, losses that are read, loaders, evaluation.

    habits = read_habits()
    habits.times(device_time, host_time)      # of a clean step, in seconds: how many times as long a lived one takes

A clean step runs with its data on the device and nothing between its kernels. A lived one takes `factor` times the
larger of the device's time and of `host` times the host's. Both, and the interval, are fitted to what people report of
whole trainings (fit/lived.py); reports of a source were left out for the interval.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from whichdevice.errors import StudyError

HABITS = Path(__file__).with_name("lived.json")


@dataclass(frozen=True)
class Habits:
    """How lived steps differ from clean ones."""

    factor: float  # of the time, whatever decides it
    host: float  # times the host's time, before the factor
    log_sd: float  # of the logarithm of a lived step's time, as 80 % of reports that were left out have it
    reports: int
    sources: int

    def times(self, device_time: float, host_time: float = 0.0) -> float:
        """How many times the clean step a lived one takes."""
        return self.factor * max(device_time, self.host * host_time) / max(device_time, host_time)

    def to_dict(self) -> dict[str, Any]:
        """A form for JSON; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, digest: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**digest)


@cache
def read_habits(path: Path = HABITS) -> Habits:
    """The fitted habits; raises StudyError where the file cannot be read."""
    try:
        return Habits.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise StudyError(f"{path.name}: cannot be read: {error}; `python -m fit.lived` writes it") from None
