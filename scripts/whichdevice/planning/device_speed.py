"""How fast a device probably is, for estimates: a CPU by a short product on this host, others by the hardware sheet."""

from functools import cache

from whichdevice.backends.number_formats import product_format
from whichdevice.config.hardware import hardware_rows
from whichdevice.config.model import Study
from whichdevice.machine import devices
from whichdevice.machine.calibration import host_flops
from whichdevice.tables.sheet_peaks import sheet_peak
from whichdevice.tables.sheet_rows import sheet_row

EFFICIENCY = 0.5  # of a training step against a plain product, on a CPU
SHEET_SHARE = 0.2  # of the sheet's peak that a training step is taken to reach on a GPU or TPU
FLOAT32_PASSES = 6  # bfloat16 products that a TPU makes a float32 one of


def step_flops(study: Study, device: str, precision: str) -> float | None:
    """Operations a second that a step is taken to reach on a device; None where its hardware is not known."""
    settings = study.devices[device]
    if settings.kind == "cpu":
        return EFFICIENCY * _host_flops()
    sheet = hardware_rows()
    name = None if study.run_on == "all" else _name_here(settings.kind)  # a scheduler's device is not this host's
    row = sheet_row(device, name, study, sheet)

    def peak(product: str) -> float | None:
        return sheet_peak(row, product, settings.replicas, None, sheet).tflops

    found = peak(product_format(precision)) or peak("float32")  # a GPU without a format multiplies in float32
    if found is None and settings.kind == "tpu" and (half := peak("bfloat16")) is not None:
        found = half / FLOAT32_PASSES
    return None if found is None else SHEET_SHARE * found * 1e12


@cache
def _host_flops() -> float:
    return host_flops()


@cache
def _name_here(kind: str) -> str | None:
    """What this host's device of a kind calls itself."""
    return devices.kind(kind).describe().name
