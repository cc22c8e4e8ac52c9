"""Energy comes from counters; without one, there is a reason."""

import math
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from whichdevice.measure.machine import energy
from whichdevice.measure.machine.energy import (
    Counters,
    EnergyMeter,
    MeterError,
    memory_counters,
    nvml_counters,
    package_counters,
)
from whichdevice.measure.record import Energy


class Counter:
    """A counter that a test turns by hand."""

    def __init__(self, joules: float, full: float = math.inf) -> None:
        self.joules, self.full, self.broken = joules, full, False

    def found(self) -> Counters:
        return Counters("a counter", self._read, [self.full], 0.001)

    def _read(self) -> list[float]:
        if self.broken:
            raise MeterError("it is gone")
        return [self.joules]


def meter_of(**counters: Counter) -> energy.EnergyMeter:
    finders = {name: counter.found for name, counter in counters.items()}
    return energy.EnergyMeter("cpu", find=lambda kind, replicas: finders)


def test_a_counter_that_wraps_goes_on() -> None:
    counter = Counter(900, full=1000)
    meter = meter_of(device=counter)
    meter.start()
    for counter.joules in (100, 800, 200):
        meter.sample()
    assert meter.stop().joules == pytest.approx(200 + 700 + 400)


def test_parts_get_their_own_joules_and_the_whole_run_all_of_them() -> None:
    counter = Counter(0)
    meter = meter_of(device=counter)
    meter.start()
    for part, joules in ((None, 5), ("steady", 100), (None, 7), ("epoch 1", 40), (None, 1), ("steady", 3)):
        meter.enter(part)
        counter.joules += joules
    found = meter.stop()
    assert found.joules == 156
    assert {name: part.joules for name, part in found.parts.items()} == {"steady": 103, "epoch 1": 40}


def test_windows_add_up_to_the_steady_state_once_that_is_known() -> None:
    counter = Counter(0)
    meter = meter_of(device=counter)
    meter.start()
    for number, joules in enumerate((9, 5, 6), 1):
        meter.take({"event": "energy", "part": f"window {number}"})
        counter.joules += joules
    meter.take({"event": "energy", "part": None})
    counter.joules += 100
    for part, of in (("warm_up", ["window 1"]), ("steady", ["window 2", "window 3"]), ("nothing", ["window 4"])):
        meter.take({"event": "energy", "part": part, "of": of})
    found = meter.stop().parts
    assert {name: part.joules for name, part in found.items()} == {"warm_up": 9, "steady": 11}


def test_a_missing_counter_says_nothing_against_the_others() -> None:
    def missing() -> Counters:
        raise MeterError("no RAPL counter")

    finders: dict[str, Callable[[], Counters]] = {"device": Counter(3).found, "host": missing}
    meter = energy.EnergyMeter("gpu", find=lambda kind, replicas: finders)
    meter.start()
    found = meter.stop()
    assert (found.joules, found.meter) == (0, "a counter")
    assert found.beside == {"host": Energy(reason="no meter: no RAPL counter")}


def test_a_counter_that_fails_during_the_run_gives_no_joules() -> None:
    counter = Counter(100)
    meter = meter_of(device=counter)
    meter.start()
    counter.broken = True
    assert meter.stop() == Energy(reason="no meter: a counter failed: it is gone")


def test_samples_from_two_threads_count_nothing_twice() -> None:
    """The supervisor samples once a minute in one thread and takes the run's messages in another."""
    counter = Counter(0)
    meter = meter_of(device=counter)
    meter.start()

    def work() -> None:
        for _ in range(300):
            counter.joules += 1
            meter.sample()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.stop().joules == counter.joules


def test_an_old_gpu_without_a_counter_is_a_reason(nvml) -> None:
    def unsupported(gpu: int) -> int:
        raise nvml.NVMLError("Not Supported")

    nvml.nvmlDeviceGetTotalEnergyConsumption = unsupported
    with pytest.raises(MeterError, match=r"^NVML: Not Supported$"):
        nvml_counters()


def test_no_nvml_and_no_visible_gpu_are_reasons(nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(MeterError, match="no GPU is visible"):
        nvml_counters()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(MeterError, match=r"^NVML: nvidia-ml-py is not installed$"):
        nvml_counters()


def test_a_driver_that_hangs_during_a_run_costs_the_energy_and_not_the_run(nvml) -> None:
    end = threading.Event()
    meter = EnergyMeter("gpu", find=lambda kind, replicas: {"device": lambda: nvml_counters(patience=0.1)})
    meter.start()
    nvml.nvmlDeviceGetTotalEnergyConsumption = lambda gpu: end.wait(5)
    meter.take({"event": "energy", "part": "window 1"})
    meter.sample()
    reason = "no meter: NVML of 1 GPU failed: NVML: no answer within 0.1 s; see nvidia-smi"
    assert meter.stop().reason == reason
    end.set()


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
    with pytest.raises(MeterError, match=r"^RAPL's energy_uj is readable by root only; see docs/how-to/study.md"):
        package_counters(tmp_path)


@pytest.mark.parametrize(("text", "reason"), [("", "holds no number"), ("n/a\n", "holds no number")])
def test_a_counter_without_a_number_is_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    (zone(tmp_path, "intel-rapl:0", "package-0", 100) / "energy_uj").write_text(text, encoding="utf-8")
    with pytest.raises(MeterError, match=reason):
        package_counters(tmp_path)
