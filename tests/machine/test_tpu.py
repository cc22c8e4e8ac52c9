"""TPUs are found on the PCI bus."""

from pathlib import Path

import pytest
from beside import beside

from whichdevice.measure.machine import tpu

BESIDE = beside(__file__)


@pytest.fixture(autouse=True)
def _nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPU_VISIBLE_CHIPS", raising=False)
    monkeypatch.delenv("TPU_VISIBLE_DEVICES", raising=False)


def host(root: Path, chips: int, device: str, subsystem: str = "0x0000", vendor: str = "0x1ae0") -> Path:
    """A host with so many PCI devices of one make, and a device node for each."""
    (root / "dev").mkdir()
    for number in range(chips):
        folder = root / f"sys/bus/pci/devices/0000:00:0{number}.0"
        folder.mkdir(parents=True)
        for name, text in (("vendor", vendor), ("device", device), ("subsystem_device", subsystem)):
            (folder / name).write_text(text + "\n", encoding="utf-8")
        (root / f"dev/accel{number}").touch()
    return root


@pytest.mark.parametrize(("device", "subsystem", "name", "cores", "memory"), BESIDE["four chips are counted in cores"])
def test_four_chips_are_counted_in_cores(tmp_path, device, subsystem, name, cores, memory) -> None:
    root = host(tmp_path, 4, device, subsystem)
    assert tpu.present(root) == cores
    assert tpu.absent_reason(cores, root) is None
    facts = tpu.describe(root)
    assert (facts.name, facts.count, facts.memory) == (name, cores, memory * 2**30)


@pytest.mark.parametrize(("vendor", "device"), [("0x1ae0", "0x0042"), ("0x10de", "0x0063")])
def test_googles_network_card_and_other_vendors_are_no_tpu(tmp_path: Path, vendor: str, device: str) -> None:
    assert tpu.present(host(tmp_path, 1, device, vendor=vendor)) == 0


def test_a_setting_makes_no_tpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v2-8")
    assert tpu.absent_reason(1, tmp_path) == "no TPU found on this host (no TPU on the PCI bus, vendor 0x1ae0)"


def test_a_container_without_the_device_nodes_is_told(tmp_path: Path) -> None:
    root = host(tmp_path, 1, "0x0063")
    (root / "dev/accel0").unlink()
    assert "is the container privileged?" in str(tpu.absent_reason(1, root))
    (root / "dev/vfio").mkdir()
    (root / "dev/vfio/vfio").touch()  # the bus itself, on any host with vfio
    assert tpu.present(root) == 0
    (root / "dev/vfio/0").touch()
    assert tpu.present(root) == 1
