"""How far forecasts are off: one joint distribution of the times of all devices of a question.

    log(time / forecast) = family + question + source + chip + machine + rest

A family of models, the question itself (model, mode, number format) and the source (how somebody measures) are shared
by all devices of a question: they cancel in a ratio. The chip, the machine that a source measured on (a card may be
cooled well or not) and the rest are parts of one device. Every part is a random effect of mean zero; a level with
published times has an offset, shrunk to zero the more the fewer they are, and the uncertainty that is left. Family,
question, source and rest have a variance for each software; a family whose models were missed by more than that, when
they were left out, has a wider shared part. `make forecasts` fits offsets and variances to published
times (fit/residuals.py); scripts/whichdevice/forecast/constants.json keeps them.

    found = residual(constants, "eager", "convolutions", "RTX 4090", "desktop")
    low, middle, high = interval(0.1, found.sd, host_time=0.02, host_log_sd=0.3)
    times = draws(rows, 2000, seed=0)         # [rows, 2000] step times of one question, in seconds

A step takes the larger of the device's and the host's time. The host's rates are of one measurement for all devices.
"""

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

SCORECARD = Path(__file__).with_name("scorecard.json")
INTERVAL = 0.8  # share of true times that an interval is meant to hold
# Log spread of a form of a chip beside what its forms share: published times of H100 PCIe and SXM differ by 8 % more
# than their forecasts, so each form by 5 %. MAX_FORM of a row's own spread at most: forms share half of its variance.
FORM_SD, MAX_FORM = 0.05, 0.7


@dataclass(frozen=True)
class Residual:
    """Log of time over forecast for one device: its mean, and the spreads that devices share and do not share."""

    offset: float
    sd_shared: float
    sd_own: float

    @property
    def sd(self) -> float:
        """The standard deviation of both together."""
        return math.hypot(self.sd_shared, self.sd_own)


def residual(fitted: Mapping[str, Any], family: str, chip: str, chip_class: str) -> Residual:
    """The residual of one software's forecast for a new question on a chip; `fitted` is that software's constants."""
    offset, family_sd = fitted["families"].get(family, fitted["family"])
    chip_offset, chip_sd = fitted["chips"].get(chip) or fitted["classes"].get(chip_class, fitted["class"])
    variances = fitted["variances"]
    shared = family_sd**2 + variances["question"] + variances["source"]
    variance = chip_sd**2 + variances["machine"] + variances["rest"]
    width = fitted["widths"].get(family, fitted["widths"]["other"])
    return Residual(offset + chip_offset, *widened_by(width, math.sqrt(shared), math.sqrt(variance)))


def widened_by(width: float, sd_shared: float, sd_own: float) -> tuple[float, float]:
    """Return both spreads of a family that is missed by so many times as much as variances say.

    What it is missed by more is of its models, which devices share; where it is less, both are narrower.
    """
    if width < 1:
        return width * sd_shared, width * sd_own
    return math.sqrt(width**2 * (sd_shared**2 + sd_own**2) - sd_own**2), sd_own


def interval(
    device_time: float, log_sd: float, host_time: float = 0.0, host_log_sd: float = 0.0, share: float = INTERVAL
) -> tuple[float, float, float]:
    """Lower end, median and upper end of a step's time in seconds: the larger of the device's and the host's time."""
    if not host_time:
        half = math.exp(log_sd * NormalDist().inv_cdf(0.5 + share / 2))
        return device_time / half, device_time, device_time * half
    middles, sds = np.log([device_time, host_time]), np.maximum([log_sd, host_log_sd], 1e-9)
    grid = np.linspace((middles - 5 * sds).min(), (middles + 5 * sds).max(), 4001)
    below = np.prod(_share_below((grid[:, None] - middles) / sds), axis=1)
    low, middle, high = np.exp(np.interp([0.5 - share / 2, 0.5, 0.5 + share / 2], below, grid))
    return float(low), float(middle), float(high)


def draws(rows: Sequence[Mapping[str, Any]], n: int, seed: int = 0) -> np.ndarray:
    """Step times in seconds [rows, n] from the joint distribution of one question's forecasts.

    A row has device_time, log_sd_shared, log_sd_own, software, chip, form, host_time and host_log_sd: `form` is the
    device, whatever the number. Rows of one software share one part, rows of one chip and software another, all the
    host's. A form with another name than its chip, such as H100 PCIe, adds its own part. A row's draws depend on
    its own values and the seed alone.
    """
    times = np.empty((len(rows), n))
    for place, row in enumerate(rows):
        logs = row["log_sd_shared"] * normal(n, seed, "shared", row["software"])
        of_form = 0.0 if row["form"] == row["chip"] else min(FORM_SD, MAX_FORM * row["log_sd_own"])
        of_chip = math.sqrt(row["log_sd_own"] ** 2 - of_form**2)
        logs = logs + of_chip * normal(n, seed, "own", row["software"], row["chip"])
        if of_form:
            logs = logs + of_form * normal(n, seed, "form", row["software"], row["form"])
        times[place] = row["device_time"] * np.exp(logs)
        host = row.get("host_time")
        if host and host == host:
            spread = row.get("host_log_sd") or 0.0
            times[place] = np.maximum(times[place], host * np.exp(spread * normal(n, seed, "host", row["software"])))
    return times


def normal(n: int, seed: int, *key: object) -> np.ndarray:
    """Return n normal numbers for a part of the error, such as ("own", "xla", "T4").

    Each comes with its mirror image, so that medians are exact.
    """
    size = -(-n // 2)
    half = _quantiles(size)[np.random.default_rng([seed, zlib.crc32(repr(key).encode())]).permutation(size)]
    return np.concatenate([half, -half])[:n]


@cache
def _quantiles(size: int) -> np.ndarray:
    """Return so many quantiles of the normal distribution: a Latin hypercube, of which few draws are right, too."""
    normal_inverse = NormalDist().inv_cdf  # SciPy's takes a quarter of an answer's time to import
    return np.array([normal_inverse((place + 0.5) / size) for place in range(size)])


def _share_below(values: np.ndarray) -> np.ndarray:
    """Return the normal distribution's share below each value."""
    return 0.5 * np.asarray(np.frompyfunc(math.erfc, 1, 1)(-values / math.sqrt(2)), float)


Card = dict[str, dict[str, dict[str, float]]]  # by software and what was left out


def read_scorecard() -> Card:
    """How good forecasts of published times were that the fit did not see; `make forecasts` writes it."""
    return dict(json.loads(SCORECARD.read_text(encoding="utf-8")))
