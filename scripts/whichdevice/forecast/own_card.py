"""A step that was timed on a card of one's own, and how it moves every other forecast.

    corrected(forecasts)                  # those without a measured step, moved by those that have one
    corrected(forecasts, timed_here())    # and by a product and a triad on this machine's GPU

A measured step is off its forecast by parts that other forecasts have, too (joint.py): all devices of its question
share one, all questions on its chip another, models of its family on the chip a third. What is left is of this machine
and of the question on this chip. The
other forecasts are what the joint distribution says, given what was measured; their intervals become narrower.
"""

import json
import math
import os
import re
import subprocess  # nosec B404
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.base.files import package_first
from whichdevice.base.sheets.hardware import HardwareRow, hardware_rows
from whichdevice.forecast.answer import Forecast
from whichdevice.forecast.joint import interval
from whichdevice.forecast.time_model import forecast_step, read_constants
from whichdevice.forecast.work import Item, Work
from whichdevice.measure.machine import gpu

SIZE, WORDS = 8192, 2**28  # of a square product in 16 bits, of each array of a triad in float32
WORKS = {
    "product": Work("gpu", (Item("product", "half", 2.0 * SIZE**3, 6.0 * SIZE**2, 1),), software="eager"),
    "triad": Work("gpu", (Item("memory", "", 0.0, 12.0 * WORDS, 1),), software="eager"),
}
PATIENCE = 90  # seconds that timing may take, PyTorch's import included
MEASURED_SD = 0.03  # log spread of a step that is measured again
# Log spread of what models of one family share on one chip, of the part that is a question's own there (`rest`): with
# more, errors on several chips have no joint distribution. Of chips that were left out, one step leaves a median error
# of 7.9 % (8.1 % without it), four 7.2 % (7.3 %).
FAMILY_SD = 0.1
HOST = 0.5  # share of a measured step from which on the host may have decided: it says nothing of the chip


@dataclass(frozen=True)
class Error:
    """A forecast's error: whose it is, and its log spreads."""

    software: str
    chip: str
    question: tuple[object, ...]
    family: str
    log_sd_shared: float
    log_sd_own: float

    def variance_with(self, other: "Error", here: bool = False) -> float:
        """The variance of the parts that both errors have; `here`: both are of this machine."""
        if self.software != other.software:
            return 0.0
        same = self.question == other.question
        shared = self.log_sd_shared * other.log_sd_shared if same else 0.0
        if self.chip != other.chip:
            return shared
        variances = read_constants()[self.software]["variances"]
        apart = 0.0 if here else variances["machine"]
        if not same:
            apart += max(0.0, variances["rest"] - FAMILY_SD**2 * (self.family == other.family))
        return shared + max(0.0, self.log_sd_own * other.log_sd_own - apart)


def given(measured: Sequence[tuple[Error, float]], error: Error) -> tuple[float, float, float]:
    """Return how far (log) measured steps move a forecast, and its spreads then: shared and own.

    Each measured error comes with the log of time over forecast.
    """
    errors = [known for known, _ in measured]
    between = np.array([[one.variance_with(other, here=True) for other in errors] for one in errors])
    between += np.diag([MEASURED_SD**2] * len(errors))
    with_them = np.array([error.variance_with(other) for other in errors])
    weights = np.linalg.solve(between, with_them)
    move = float(weights @ np.array([log for _, log in measured]))
    left = max(error.log_sd_shared**2 + error.log_sd_own**2 - float(weights @ with_them), MEASURED_SD**2)
    share = left / (error.log_sd_shared**2 + error.log_sd_own**2)
    return move, error.log_sd_shared * math.sqrt(share), error.log_sd_own * math.sqrt(share)


def corrected(forecasts: Sequence[Forecast], timed: Sequence[tuple[Error, float]] = ()) -> list[Forecast]:
    """Move the forecasts that have no measured step by those that have one, and by `timed`; `moved` is the factor."""
    steps = [(error_of(step), math.log(step.residual)) for step in forecasts if step.residual and _tells(step)]
    measured = [*timed, *steps]
    return [_moved(step, measured) if measured and _can_move(step) else step for step in forecasts]


def error_of(forecast: Forecast) -> Error:
    """The error of a forecast."""
    question = (forecast.workload, forecast.mode, forecast.precision, forecast.sequence_length)
    spreads = forecast.log_sd_shared or 0.0, forecast.log_sd_own or 0.0
    return Error(forecast.software or "", forecast.chip or "", question, forecast.family or "", *spreads)


def _tells(forecast: Forecast) -> bool:
    return bool(forecast.log_sd_own) and (forecast.host_time or 0.0) < HOST * (forecast.own_step_time or 0.0)


def _can_move(forecast: Forecast) -> bool:
    return bool(forecast.device_time and forecast.log_sd_own) and not forecast.residual


def _moved(forecast: Forecast, measured: Sequence[tuple[Error, float]]) -> Forecast:
    move, shared, own_sd = given(measured, error_of(forecast))
    if not move:
        return forecast
    device_time = (forecast.device_time or 0.0) * math.exp(move)
    low, middle, high = interval(
        device_time, math.hypot(shared, own_sd), forecast.host_time or 0.0, forecast.host_log_sd or 0.0
    )
    longer = middle / (forecast.step_time or middle)
    return replace(
        forecast, device_time=device_time, step_time=middle, step_time_low=low, step_time_high=high,
        log_sd_shared=shared, log_sd_own=own_sd, moved=math.exp(move),
        throughput=forecast.throughput and forecast.throughput / longer,
    )  # fmt: skip


def timed_here() -> list[tuple[Error, float]]:
    """Return how far this machine's GPU is off what is forecast for a product and a triad; empty without a GPU."""
    if not gpu.present() or (row := _row_of(gpu.describe().name or "")) is None:
        return []
    return off_by(row, rates())


def off_by(row: HardwareRow, seconds: Mapping[str, float]) -> list[tuple[Error, float]]:
    """Return the errors of the forecasts of WORKS on a card, with the logs of what was timed over them."""
    errors = []
    for name, timed in seconds.items():
        try:
            step = forecast_step(WORKS[name], row, "predict")
        except StudyError:  # the sheet lacks a number of this card
            continue
        error = Error(step.software, step.chip, (name,), name, step.log_sd_shared, step.log_sd_own)
        errors.append((error, math.log(timed / step.device_time)))
    return errors


def _row_of(name: str) -> HardwareRow | None:
    return next((row for row in hardware_rows().values() if row.matches and re.search(row.matches, name)), None)


@cache
def rates() -> Mapping[str, float]:
    """Seconds of WORKS on the first GPU, by PyTorch in a process of its own; empty where that fails."""
    command = [sys.executable, "-m", "whichdevice.measure.machine.gpu_rates", str(SIZE), str(WORDS)]
    try:
        done = subprocess.run(  # nosec B603
            command, env=os.environ | package_first(), capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        return dict(json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return {}
