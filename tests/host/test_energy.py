"""Joules from counters that are there, reasons where there are none."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from whichdevice.host import energy
from whichdevice.host.nvml import NvmlError
from whichdevice.records.schema import Energy

JOULE = 1_000_000  # microjoules


def zone(powercap: Path, name: str, label: str, joules: int, full: int = 1000) -> Path:
    folder = powercap / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in (("name", label), ("energy_uj", joules * JOULE), ("max_energy_range_uj", full * JOULE)):
        (folder / file).write_text(f"{text}\n", encoding="utf-8")
    return folder


def advance(folder: Path, joules: int) -> None:
    (folder / "energy_uj").write_text(f"{joules * JOULE}\n", encoding="utf-8")


def processor_meter(powercap: Path) -> energy.EnergyMeter:
    return energy.EnergyMeter("cpu", find=lambda kind, replicas: energy.rapl_counters(powercap))


def test_packages_are_summed_and_their_parts_are_not(tmp_path: Path) -> None:
    first, second = zone(tmp_path, "intel-rapl:0", "package-0", 100), zone(tmp_path, "intel-rapl:1", "package-1", 5)
    part, platform = zone(tmp_path, "intel-rapl:0:0", "core", 50), zone(tmp_path, "intel-rapl:2", "psys", 50)
    meter = processor_meter(tmp_path)
    meter.start()
    for folder, joules in ((first, 130), (second, 25), (part, 999), (platform, 999)):
        advance(folder, joules)
    assert meter.stop() == Energy(joules=50.0, meter="RAPL of 2 processor packages")


def test_a_counter_that_wraps_goes_on(tmp_path: Path) -> None:
    folder = zone(tmp_path, "intel-rapl:0", "package-0", 900, full=1000)
    meter = processor_meter(tmp_path)
    meter.start()
    for joules in (100, 800, 200):
        advance(folder, joules)
        meter.sample()
    assert meter.stop().joules == pytest.approx(200 + 700 + 400)


def test_start_begins_at_zero(tmp_path: Path) -> None:
    folder = zone(tmp_path, "intel-rapl:0", "package-0", 100)
    meter = processor_meter(tmp_path)
    meter.start()
    advance(folder, 300)
    meter.start()
    advance(folder, 310)
    assert meter.stop().joules == pytest.approx(10)


def test_no_powercap_is_a_reason(tmp_path: Path) -> None:
    with pytest.raises(energy.MeterError, match="no RAPL processor package"):
        energy.rapl_counters(tmp_path)


def test_a_counter_for_root_only_is_a_reason_without_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 100)
    read = Path.read_text

    def guarded(path: Path, **options: str) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read(path, **options)

    monkeypatch.setattr(Path, "read_text", guarded)
    with pytest.raises(energy.MeterError, match=r"^RAPL's energy_uj is readable by root only$"):
        energy.rapl_counters(tmp_path)


def test_a_counter_that_fails_during_the_run_gives_no_joules(tmp_path: Path) -> None:
    folder = zone(tmp_path, "intel-rapl:0", "package-0", 100)
    meter = processor_meter(tmp_path)
    meter.start()
    (folder / "energy_uj").unlink()
    result = meter.stop()
    assert result.joules is None and result.meter is None
    assert result.reason and result.reason.startswith("no meter: RAPL of 1 processor package failed")


class FakeNvml(SimpleNamespace):
    class NVMLError(Exception):
        pass


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Two GPUs whose counters gain 5000 and 7000 mJ at each reading."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    millijoules = {0: 0, 1: 0}

    def consumption(gpu: int) -> int:
        millijoules[gpu] += 5000 + 2000 * gpu
        return millijoules[gpu]

    fake = FakeNvml(
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetTotalEnergyConsumption=consumption,
    )
    monkeypatch.setattr(energy, "open_nvml", lambda: fake)
    return fake


@pytest.mark.parametrize(("replicas", "joules", "name"), [(1, 5.0, "NVML of 1 GPU"), (2, 12.0, "NVML of 2 GPUs")])
def test_a_gpu_run_counts_its_own_gpus(nvml: FakeNvml, replicas: int, joules: float, name: str) -> None:
    meter = energy.EnergyMeter("gpu", replicas)
    meter.start()
    assert meter.stop() == Energy(joules=joules, meter=name)


def test_an_old_gpu_without_a_counter_is_a_reason(nvml: FakeNvml) -> None:
    def unsupported(gpu: int) -> int:
        raise nvml.NVMLError("Not Supported")

    nvml.nvmlDeviceGetTotalEnergyConsumption = unsupported
    meter = energy.EnergyMeter("gpu")
    meter.start()
    assert meter.stop() == Energy(reason="no meter: NVML: Not Supported")


def test_no_nvml_and_tpus_are_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise NvmlError("not installed")

    monkeypatch.setattr(energy, "open_nvml", missing)
    assert energy.EnergyMeter("gpu").stop().reason == "no meter: NVML: not installed"
    assert energy.EnergyMeter("tpu").stop().reason == "no meter: a TPU has no energy counter that a program can read"


def test_a_gpu_counter_that_went_back_gives_no_joules() -> None:
    values = iter([[10.0], [3.0]])
    counters = energy.Counters("NVML of 1 GPU", lambda: next(values), [math.inf])
    meter = energy.EnergyMeter("gpu", find=lambda kind, replicas: counters)
    meter.start()
    assert meter.stop() == Energy(reason="no meter: NVML of 1 GPU was reset during the run")
