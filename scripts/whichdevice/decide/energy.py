"""Watts of a machine at work: measured by its counters, else forecast from the shares of its peaks that a step reaches.

A GPU's board draws a share of its maximum that depends on the kind of step (a whole pass, or one token after another),
on operations and bytes a second over the sheet's peaks, and on how many GPUs share the work. `python -m fit` fits that
to measured runs (fit/energy.py), which docs/reference/energy-validation.md holds against what was left out.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from whichdevice.base.files import json_of
from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.forecast.answer import Forecast

POWER_CONSTANTS = Path(__file__).with_name("energy.json")
MAX_SHARE = 1.05  # of the maximum: the most that a board draws
# The host of a GPU: processors, memory, fans and what power supplies lose. A server of eight H100 drew 8.4 kW at work
# (Latif et al. 2025), its boards at most 5.6: 350 W for each. A desktop with one card takes 100 to 200 W besides.
HOST_WATTS, HOST_SHARE = 60.0, 0.4  # for each GPU, and of what its board draws
OTHER_CHIP_SD = 0.15  # of the logarithm: chips without measured runs, assumed
TESTED = ("H100 SXM", "B200 SXM")
TPU_WATTS, TPU_SD = 225.0, 0.4  # of a chip whose sheet has no watts: between the figures of TPU v4 and v3
MACHINE_WATTS = {"cpu": 100.0, "gpu": 400.0, "tpu": 300.0}  # of one without a meter, assumed
ASSUMED_SD, METERED_SD = 0.4, 0.03
Evidence = Literal["measured", "forecast", "assumed"]


@dataclass(frozen=True)
class Power:
    """The power of a row's machine at work, in watts, all of its devices together."""

    watts: float  # of its boards, as their own meters count
    host_watts: float
    log_sd: float  # of the logarithm of both together
    evidence: Evidence

    @property
    def total(self) -> float:
        """Boards and host."""
        return self.watts + self.host_watts


def metered(watts: float | None, kind: str, beside: float = 0.0) -> Power:
    """Return the power of a machine that was measured; without a meter it is assumed. `beside` is the host's share."""
    if watts is None:
        return Power(MACHINE_WATTS[kind], 0.0, ASSUMED_SD, "assumed")
    return Power(watts, beside, METERED_SD, "measured")


def forecast_power(forecast: Forecast, sheet: HardwareRow | None) -> Power | None:
    """Return the power of a forecast step; None where it has no time."""
    if not forecast.step_time or sheet is None:
        return None
    devices = forecast.devices or 1
    if forecast.kind == "tpu":
        watts, log_sd = (sheet.power_w, ASSUMED_SD) if sheet.power_w else (TPU_WATTS, TPU_SD)
        return _with_host(watts, devices, log_sd)
    if not sheet.power_w:
        return None
    peaks = {"float32": sheet.fp32_tflops, "tf32": sheet.tf32_tflops}
    tflops = peaks.get(forecast.precision or "", sheet.half_dense_tflops) or sheet.fp32_tflops or 1.0
    operations = (forecast.operations or 0.0) / forecast.step_time / tflops / 1e12
    nbytes = (forecast.nbytes or 0.0) / forecast.step_time / (sheet.mem_bw_gbs or 1.0) / 1e9
    share = board_share(forecast.mode in ("decode", "generate"), operations, nbytes, devices)
    log_sd = json_of(POWER_CONSTANTS)["log_sd"]
    if sheet.device not in TESTED:
        log_sd = math.hypot(log_sd, OTHER_CHIP_SD)
    return _with_host(share * sheet.power_w, devices, log_sd)


def _with_host(board: float, devices: int, log_sd: float) -> Power:
    """Return boards with their hosts, in whole watts, with the spread of the boards alone."""
    host = HOST_WATTS + HOST_SHARE * board
    return Power(round(board * devices), round(host * devices), round(log_sd, 3), "forecast")


def board_share(decodes: bool, operations: float, nbytes: float, devices: int) -> float:
    """Return the share of its maximum that a board draws; `operations` and `nbytes` are shares of the sheet's peaks."""
    weights = json_of(POWER_CONSTANTS)["weights"]
    value = sum(w * x for w, x in zip(weights, features(decodes, operations, nbytes, devices), strict=True))
    return MAX_SHARE / (1 + math.exp(-value))


def features(decodes: bool, operations: float, nbytes: float, devices: int) -> list[float]:
    """Return what the share depends on; beyond what was measured it stays at the end of that."""
    ends = json_of(POWER_CONSTANTS)["decodes" if decodes else "passes"]
    operations, nbytes = (min(max(x, low), high) for x, (low, high) in zip((operations, nbytes), ends, strict=True))
    return terms(decodes, operations, nbytes, min(devices, 8))


def terms(decodes: bool, operations: float, nbytes: float, devices: int) -> list[float]:
    """Return the terms of the fit; the bytes of a whole pass say little and are left out."""
    work, moved, shared = math.log(operations), math.log(nbytes), math.log2(devices)
    common = [1.0, shared, work, work**2]
    return [*common, *common, moved, moved**2] if decodes else [*common, *[0.0] * (len(common) + 2)]
