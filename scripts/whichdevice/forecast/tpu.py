"""A TPU's first estimate, without its compiler: from the counted step of JAX or Keras, or from a trace of PyTorch.

The operations are the same ones. A TPU's compiler keeps small arrays in the chip's own memory, and makes other kernels:
constants.json has factors of their own for both, fitted to published steps and to kept programs of libtpu, the TPU's
compiler (fit/tpu.py). Loops over time steps stay loops: a TPU has no cuDNN.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.forecast.time_model import Peaks, read_constants, seconds_by_class, software_of
from whichdevice.forecast.work import Item, Work

SMALL_LOOPS = 256e6  # bytes that one run of a loop may move for its arrays to stay on the chip
ON_CHIP = 30e6  # bytes of a kernel of which half leave the chip; of larger ones most do
# The same of chips that have a memory besides, which cores share: Jouppi et al., "TPU v4", ISCA 2023 (CMEM).
COMMON_MEMORY = {"TPU v4": 128 * 2**20}
SPREAD = 0.3  # within so much of the memory a step may or may not fit
# Of what a step holds for a while on a GPU, the share that it does on a TPU, which fuses more and pads what loops keep.
TEMPORARY, IN_LOOPS = 0.8, 1.25
ESTIMATE = "a first estimate, without its compiler"
KERAS_ESTIMATE = f"{ESTIMATE}; Keras needs its JAX backend"
PYTORCH = "PyTorch needs PyTorch/XLA there (torch_xla.device(), torch_xla.sync() after each step) or a port to JAX; "
PYTORCH += "published times are of ports to JAX alone"
PORTED = "PyTorch on TPU"  # the name of the constants of a step that nobody runs as it is
FULL_ROWS = 8  # of a batch, that a matrix unit takes at a time
LOOPS_SHARE = 0.3  # of the time, from which on loops over time steps are a cause
WORTH = 0.85  # of the time of an example, from which on a change is worth a sentence
NO_4_BITS = "4-bit weights (bitsandbytes) have no TPU form"
NO_FORM = "{} has no TPU form"
CAST = "float64 has no TPU form; cast the model and its data to float32"


def of_program(work: Work, device: str = "") -> Work:
    """The work of a step on a TPU from its count, small loops as time steps."""
    return replace(work, platform="tpu", software="xla of a GPU", items=_fused(work, device))


def of_trace(fused: Work, device: str = "") -> Work:
    """The work of a PyTorch step on a TPU from its trace, with chains of kernels fused."""
    return replace(fused, platform="tpu", software="PyTorch", items=_fused(fused, device))


def _fused(work: Work, device: str) -> tuple[Item, ...]:
    """The items with the bytes that leave the chip."""
    stays = COMMON_MEMORY.get(device, ON_CHIP)
    return tuple(
        item if item.kind == "collective" else replace(item, bytes=item.bytes * item.bytes / (item.bytes + stays))
        for item in work.items
    )


def memory_needed(work: Work, lasting: float, temporary: float) -> float:
    """Bytes on a TPU from those on a GPU: of arguments and results, and of what the step holds for a while."""
    loops = any(item.kind == "recurrent" for item in work.items)
    return lasting + (IN_LOOPS if loops else TEMPORARY) * temporary


def without_form(missing: Sequence[str]) -> str | None:
    """Why a traced step cannot run on a TPU; None where all of it can."""
    return (CAST if missing[0] == "float64" else NO_FORM.format(", ".join(missing))) if missing else None


def ends(needed: float, inputs: float = 0.0) -> tuple[float, float]:
    """Return between which bytes a step takes on a TPU by its compiler, where this estimate needs so many.

    `inputs` of layers can be left to the host, as MaxText does.
    """
    return (needed - inputs) / (1 + SPREAD), needed / (1 - SPREAD)


def changes(work: Work, device: HardwareRow, batch: int) -> tuple[dict[str, Any], ...]:
    """Return what keeps a TPU's matrix units idle, with what to set instead, the strongest first.

    `cause` is float32, "time steps" or batch; `share` is its part of the device's time, `time` an example's time after
    the change over today's. `batch` is the examples of one chip.
    """
    peaks, factors = Peaks.of(device), read_constants()[software_of(work)]["factors"]

    def seconds(changed: Work) -> float:
        return sum(seconds_by_class(changed, peaks, factors).values())

    parts = seconds_by_class(work, peaks, factors)
    seconds_now = sum(parts.values())
    if not seconds_now:
        return ()
    recurrent = sum(value for name, value in parts.items() if "recurrent" in name) / seconds_now
    products = sum(value for name, value in parts.items() if name.endswith(("product", "convolution"))) / seconds_now
    half = replace(work, items=tuple(replace(item, precision="half") for item in work.items if item.precision))
    without_products = tuple(item for item in work.items if not item.precision)
    times = max(2.0, FULL_ROWS / batch)
    larger = seconds(_larger(work, times)) / (times * seconds_now)
    few, loops = batch < FULL_ROWS, recurrent > LOOPS_SHARE
    causes: list[dict[str, Any]] = [
        {"cause": "float32", "share": products, "setting": "mixed_bfloat16",
         "time": seconds(replace(half, items=half.items + without_products)) / seconds_now},
        {"cause": "time steps", "share": recurrent, "setting": round(times), "time": larger if loops else 1.0},
        {"cause": "batch", "share": 1.0, "setting": round(times), "time": larger if few else 1.0},
    ]  # fmt: skip
    return tuple(sorted((cause for cause in causes if cause["time"] <= WORTH), key=lambda cause: cause["time"]))


def _larger(work: Work, times: float) -> Work:
    """The step of so many times the batch, in as many kernels."""
    fixed = ("optimizer", "collective")
    items = (
        item if item.kind in fixed else replace(item, operations=item.operations * times, bytes=item.bytes * times)
        for item in work.items
    )
    return replace(work, items=tuple(items))
