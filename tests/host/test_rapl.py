"""RAPL counters found in made-up powercap folders as Linux lays them out."""

from pathlib import Path

import pytest

from whichdevice.host.energy_counters import MeterError
from whichdevice.host.rapl import memory_counters, package_counters

JOULE = 1_000_000  # microjoules


def zone(powercap: Path, name: str, label: str, joules: int, full: int = 262_143) -> Path:
    folder = powercap / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in (("name", label), ("energy_uj", joules * JOULE), ("max_energy_range_uj", full * JOULE)):
        (folder / file).write_text(f"{text}\n", encoding="utf-8")
    return folder


def test_a_server_has_packages_and_their_memory_apart(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 100)
    zone(tmp_path, "intel-rapl:0:0", "dram", 7, full=65_532)
    zone(tmp_path, "intel-rapl:1", "package-1", 5)
    zone(tmp_path, "intel-rapl:1:0", "dram", 8, full=65_532)
    packages, memory = package_counters(tmp_path), memory_counters(tmp_path)
    assert (packages.name, packages.read()) == ("RAPL of 2 processor packages", [100.0, 5.0])
    assert (memory.name, memory.read()) == ("RAPL of the memory of 2 processor packages", [7.0, 8.0])
    assert (packages.ranges, memory.ranges) == ([262_143.0] * 2, [65_532.0] * 2)


def test_a_laptop_counts_its_package_once(tmp_path: Path) -> None:
    """Its platform holds the package, cores and graphics are parts of it, and MMIO shows it a second time."""
    zone(tmp_path, "intel-rapl:0", "package-0", 100)
    zone(tmp_path, "intel-rapl:0:0", "core", 60)
    zone(tmp_path, "intel-rapl:0:1", "uncore", 10)
    zone(tmp_path, "intel-rapl:1", "psys", 300)
    zone(tmp_path, "intel-rapl-mmio:0", "package-0", 100)
    (tmp_path / "intel-rapl").mkdir()  # the control type itself
    assert package_counters(tmp_path).read() == [100.0]
    with pytest.raises(MeterError, match=r"^no RAPL counter of the memory of a processor package$"):
        memory_counters(tmp_path)


def test_dies_and_amd_processors_are_packages_too(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0-die-0", 1)
    zone(tmp_path, "intel-rapl:1", "package-0-die-1", 2, full=65_532)  # AMD's range
    zone(tmp_path, "intel-rapl:1:0", "core", 1)
    assert package_counters(tmp_path).read() == [1.0, 2.0]


def test_no_powercap_is_a_reason(tmp_path: Path) -> None:
    with pytest.raises(MeterError, match=r"^no RAPL counter of a processor package \(usual in virtual machines\)$"):
        package_counters(tmp_path / "missing")


def test_a_container_that_hides_powercap_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "intel-rapl:0").symlink_to(tmp_path / "devices/virtual/powercap/intel-rapl:0")
    with pytest.raises(MeterError, match="hidden from this container; mount"):
        package_counters(tmp_path)


def test_a_counter_for_root_only_is_a_reason_without_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 100)
    read = Path.read_text

    def guarded(path: Path, **options: str) -> str:  # root may read what nobody else may
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read(path, **options)

    monkeypatch.setattr(Path, "read_text", guarded)
    with pytest.raises(MeterError, match=r"^RAPL's energy_uj is readable by root only; see docs/how-to/energy.md"):
        package_counters(tmp_path)


@pytest.mark.parametrize(("text", "reason"), [("", "holds no number"), ("n/a\n", "holds no number")])
def test_a_counter_without_a_number_is_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    (zone(tmp_path, "intel-rapl:0", "package-0", 100) / "energy_uj").write_text(text, encoding="utf-8")
    with pytest.raises(MeterError, match=reason):
        package_counters(tmp_path)
