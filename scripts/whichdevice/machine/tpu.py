"""Find Cloud TPUs on a TPU VM by the PCI bus, as JAX does.

TPU_ACCELERATOR_TYPE does not show them: compiling for a TPU sets it on hosts without one. Google's vendor id alone
does not show them either: Google's network and disk cards carry it too.
Ids and facts per chip: jax/_src/hardware_utils.py and tpu_info/device.py of cloud-accelerator-diagnostics.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from whichdevice.machine.devices import DeviceFacts, visible_list

GOOGLE = "0x1ae0"
ROOT = Path("/")
GIB = 2**30


@dataclass(frozen=True)
class Chip:
    """One generation: `cores` are the devices that a framework sees per chip; memory is bytes per chip."""

    name: str
    cores: int
    memory: int
    machines: tuple[int, ...] = (1,)  # chips of the single machines that can be rented


V2, V3 = Chip("TPU v2", 2, 16 * GIB, (4,)), Chip("TPU v3", 2, 32 * GIB, (4,))
V2_SUBSYSTEM = "0x004e"  # v2 and v3 share a device id
CHIPS = {
    "0x0027": V3,
    "0x005e": Chip("TPU v4", 1, 32 * GIB, (4,)),
    "0x0062": Chip("TPU v5p", 1, 95 * GIB, (4,)),
    "0x0063": Chip("TPU v5e", 1, 16 * GIB, (1, 4, 8)),
    "0x006f": Chip("TPU v6e", 1, 32 * GIB, (1, 4, 8)),
    "0x0076": Chip("TPU7x", 2, 192 * GIB),
}


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
    chips = list(_chips(root))
    try:
        driver = f"libtpu {version('libtpu')}"
    except PackageNotFoundError:
        driver = None
    if not chips:
        return DeviceFacts(driver=driver)
    return DeviceFacts(chips[0].name, present(root), chips[0].memory // chips[0].cores, driver)


def _look(root: Path) -> tuple[int, str]:
    """How many cores, and why there are none."""
    chips = list(_chips(root))
    if not chips:
        return 0, f"no TPU on the PCI bus, vendor {GOOGLE}"
    if not any((root / "dev").glob("accel*")) and not any((root / "dev/vfio").glob("[0-9]*")):
        return 0, f"{len(chips)} chips on the PCI bus, but no /dev/accel* or /dev/vfio: is the container privileged?"
    visible = visible_list("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES")
    if visible is None or not visible[1]:  # an empty list hides nothing
        return sum(chip.cores for chip in chips), ""
    return sum(chip.cores for chip in chips[: len(visible[1])]), ""


def _chips(root: Path) -> Iterator[Chip]:
    for vendor in sorted((root / "sys/bus/pci/devices").glob("*/vendor")):
        if _text(vendor) != GOOGLE:
            continue
        chip = CHIPS.get(_text(vendor.with_name("device")))
        if chip is V3 and _text(vendor.with_name("subsystem_device")) == V2_SUBSYSTEM:
            chip = V2
        if chip is not None:
            yield chip


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
