"""The machine part of a record."""

import platform

import pytest

from whichdevice.machine import devices, facts


def test_the_cpu_host_is_described() -> None:
    found = facts.describe_machine("cpu", threads=2)
    assert found.device_name == found.cpu and found.device_count == 1
    assert found.threads == 2 and found.cores and found.memory
    assert found.architecture == platform.machine() and found.operating_system


def test_the_device_comes_from_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = devices.DeviceFacts("NVIDIA H200", 8, 2**37, "NVIDIA 560", 2**36, 700.0, 1.98e9)
    monkeypatch.setattr(devices.kind("gpu"), "describe", lambda: facts)
    found = facts.describe_machine("gpu")
    assert (found.device_name, found.device_count, found.driver) == ("NVIDIA H200", 8, "NVIDIA 560")
    assert (found.device_memory, found.device_memory_free) == (2**37, 2**36)
    assert (found.power_limit, found.clock_max) == (700.0, 1.98e9)
    assert found.cpu != "NVIDIA H200"


def test_no_host_name_stands_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    name = platform.uname()._replace(node="a-host-name-that-tells")
    monkeypatch.setattr(platform, "uname", lambda: name)
    assert platform.node() == "a-host-name-that-tells"
    assert "that-tells" not in facts.describe_machine("cpu", 1).model_dump_json()


def test_the_operating_system_is_distribution_and_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "release", lambda: "6.1.0")
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"PRETTY_NAME": "Debian 12"})
    assert facts.operating_system() == "Debian 12, Linux 6.1.0"
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("15.1", ("", "", ""), "arm64"))
    assert facts.operating_system() == "macOS 15.1"
