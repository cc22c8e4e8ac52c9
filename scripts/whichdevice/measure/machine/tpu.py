"""Find Cloud TPUs on a TPU VM by the PCI bus, as JAX does.

TPU_ACCELERATOR_TYPE does not show them: it may be set on hosts without one. Google's vendor id alone
does not show them either: Google's network and disk cards carry it too.
"""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from whichdevice.base.files import text_of
from whichdevice.base.sheets.tpus import CHIPS, V2_SUBSYSTEM, Chip
from whichdevice.measure.machine.devices import DeviceFacts, visible_list

GOOGLE = "0x1ae0"
ROOT = Path("/")
GIB = 2**30


def present(root: Path = ROOT) -> int:
    """TPU cores that this process may use."""
    return _look(root)[0]


def absent_reason(replicas: int = 1, root: Path = ROOT) -> str | None:
    """None if there are enough TPU cores, otherwise why not."""
    count, reason = _look(root)
    if count >= replicas:
        return None
    if count == 0:
        return f"no TPU found on this host ({reason})"
    return f"{count} TPU core{'s' * (count > 1)} found on this host, {replicas} replicas asked"


def describe(root: Path = ROOT) -> DeviceFacts:
    """Generation, cores, memory per core and the TPU driver library."""
    from whichdevice.base.sheets.hardware import hardware_rows  # slow to import; devices are looked for at every start

    chips = list(_chips(root))
    try:
        driver = f"libtpu {version('libtpu')}"
    except PackageNotFoundError:
        driver = None
    if not chips:
        return DeviceFacts(driver=driver)
    memory = round((hardware_rows()[chips[0].device].mem_gb or 0.0) * GIB)
    return DeviceFacts(chips[0].device, present(root), memory // chips[0].devices, driver)


def _look(root: Path) -> tuple[int, str]:
    """How many cores, and why there are none."""
    chips = list(_chips(root))
    if not chips:
        return 0, f"no TPU on the PCI bus, vendor {GOOGLE}"
    if not any((root / "dev").glob("accel*")) and not any((root / "dev/vfio").glob("[0-9]*")):
        return 0, f"{len(chips)} chips on the PCI bus, but no /dev/accel* or /dev/vfio: is the container privileged?"
    visible = visible_list("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES")
    if visible is None or not visible[1]:  # an empty list hides nothing
        return sum(chip.devices for chip in chips), ""
    return sum(chip.devices for chip in chips[: len(visible[1])]), ""


def _chips(root: Path) -> Iterator[Chip]:
    for vendor in sorted((root / "sys/bus/pci/devices").glob("*/vendor")):
        if text_of(vendor) != GOOGLE:
            continue
        alike = [chip for chip in CHIPS.values() if chip.pci == text_of(vendor.with_name("device"))]
        older = text_of(vendor.with_name("subsystem_device")) == V2_SUBSYSTEM  # v2 and v3 share an id
        if alike:
            yield alike[0] if older else alike[-1]
