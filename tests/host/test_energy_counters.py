"""NVML's energy counters, and reasons where it has none."""

import threading
from types import SimpleNamespace

import pytest

from whichdevice.machine import energy
from whichdevice.machine.energy import EnergyMeter, MeterError, nvml_counters
from whichdevice.machine.gpu import NvmlError
from whichdevice.measuring import supervisor


class FakeNvml(SimpleNamespace):
    class NVMLError(Exception):
        pass


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Two GPUs that have drawn 5000 and 7000 mJ."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    fake = FakeNvml(
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetMigMode=lambda gpu: [0, 0],
        nvmlDeviceGetTotalEnergyConsumption=lambda gpu: 5000 + 2000 * gpu,
    )
    monkeypatch.setattr(energy, "open_nvml", lambda: fake)
    return fake


@pytest.mark.parametrize(
    ("replicas", "joules", "name"), [(1, [5.0], "NVML of 1 GPU"), (2, [5.0, 7.0], "NVML of 2 GPUs")]
)
def test_a_run_counts_its_own_gpus(nvml: FakeNvml, replicas: int, joules: list[float], name: str) -> None:
    counters = nvml_counters(replicas)
    assert (counters.name, counters.read()) == (name, joules)


def test_an_old_gpu_without_a_counter_is_a_reason(nvml: FakeNvml) -> None:
    def unsupported(gpu: int) -> int:
        raise nvml.NVMLError("Not Supported")

    nvml.nvmlDeviceGetTotalEnergyConsumption = unsupported
    with pytest.raises(MeterError, match=r"^NVML: Not Supported$"):
        nvml_counters()


def test_no_nvml_and_no_visible_gpu_are_reasons(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(MeterError, match="no GPU is visible"):
        nvml_counters()

    def missing() -> None:
        raise NvmlError("not installed")

    monkeypatch.setattr(energy, "open_nvml", missing)
    with pytest.raises(MeterError, match=r"^NVML: not installed$"):
        nvml_counters()


def test_a_driver_that_hangs_during_a_run_costs_the_energy_and_not_the_run(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(energy, "PATIENCE", 0.1)
    end = threading.Event()
    meter = EnergyMeter("gpu", find=lambda kind, replicas: {"device": nvml_counters})
    meter.start()
    nvml.nvmlDeviceGetTotalEnergyConsumption = lambda gpu: end.wait(5)
    meter.take({"event": "energy", "part": "window 1"})
    meter.sample()
    reason = "no meter: NVML of 1 GPU failed: NVML: no answer within 0.1 s; see nvidia-smi"
    assert meter.stop().reason == reason
    end.set()


def test_a_driver_that_hangs_from_the_start_is_a_reason(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "PATIENCE", 0.1)
    end = threading.Event()
    nvml.nvmlDeviceGetHandleByIndex = lambda index: end.wait(5)
    with pytest.raises(MeterError, match=r"^NVML: no answer within 0\.1 s; see nvidia-smi$"):
        nvml_counters()
    end.set()


def test_a_hanging_counter_is_given_up_before_the_last_messages_of_a_process() -> None:
    assert energy.PATIENCE < supervisor.GRACE_SECONDS
