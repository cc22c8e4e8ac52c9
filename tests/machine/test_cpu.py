"""The processor is named, and limits of containers and schedulers are read."""

import errno
import os
from pathlib import Path

import pytest
from beside import beside
from machine.conftest import put

from whichdevice.base import cpu

BESIDE = beside(__file__)


@pytest.mark.parametrize(("files", "cores"), BESIDE["quotas"])
def test_a_quota_limits_the_cores(tmp_path: Path, files: dict[str, str], cores: int) -> None:
    for name, text in files.items():
        put(tmp_path / name, text)
    assert cpu.usable_cores(tmp_path, 16) == cores


@pytest.mark.parametrize(
    ("groups", "stat"),
    [
        ("0::/job", "usage_usec 9000000\nnr_throttled 7\nthrottled_usec 2500000"),
        ("3:cpu,cpuacct:/job", "nr_periods 90\nnr_throttled 7\nthrottled_time 2500000000"),
    ],
)
def test_what_a_quota_held_up_is_read_in_seconds(tmp_path: Path, groups: str, stat: str) -> None:
    put(tmp_path / "proc/self/cgroup", groups)
    put(tmp_path / "sys/fs/cgroup" / ("cpu/job" if "cpu" in groups else "job") / "cpu.stat", stat)
    assert cpu.throttled_seconds(tmp_path) == 2.5


@pytest.mark.parametrize(("quota", "seconds"), [("50000 100000", None), ("100000 100000", 3.0)])
def test_a_quota_below_one_processor_holds_every_run_up_and_is_no_noise(tmp_path, quota, seconds) -> None:
    put(tmp_path / "proc/self/cgroup", "0::/job")
    put(tmp_path / "sys/fs/cgroup/job/cpu.max", quota)
    put(tmp_path / "sys/fs/cgroup/job/cpu.stat", "throttled_usec 3000000")
    assert cpu.throttled_seconds(tmp_path) == seconds


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_reason_in_the_words_of_the_system_says_so(code: int, tmp_path: Path) -> None:
    assert cpu.is_full(f"OSError: [Errno {code}] {os.strerror(code)}: 'weights.h5'", tmp_path)
    assert cpu.is_full(f"OSError: unable to create file (error message = '{os.strerror(code)}')")


def test_another_reason_with_room_left_does_not(tmp_path: Path) -> None:
    assert not cpu.is_full("ValueError: no", tmp_path, tmp_path / "gone")
    assert not cpu.is_full(None, tmp_path)


@pytest.mark.needs("linux")
def test_no_room_left_says_so_without_a_word() -> None:
    nothing_is_free = Path("/proc")
    assert cpu.is_full("the process ended without a result (exit code 1); see its log", nothing_is_free)


def cpuinfo(folder: Path, text: str) -> Path:
    path = folder / "cpuinfo"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_first_processor_of_x86(tmp_path: Path) -> None:
    path = cpuinfo(tmp_path, BESIDE["x86"])
    assert cpu.cpu_model(path) == "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"
    assert cpu.instruction_sets(path) == ["avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"]


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """Let a program of this name, which prints the text, be the only one."""
    (folder / name).write_text(f"#!/bin/sh\necho '{text}'\n", encoding="utf-8")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.needs("linux")
def test_arm_takes_its_name_from_lscpu(tmp_path, monkeypatch) -> None:
    program(tmp_path, monkeypatch, "lscpu", "Vendor ID:   ARM\nModel name:   Neoverse-V1")
    path = cpuinfo(tmp_path, BESIDE["arm"])
    assert cpu.cpu_model(path) == "Neoverse-V1"
    assert cpu.instruction_sets(path) == ["asimd", "sve", "i8mm", "bf16"]


def test_macos_asks_sysctl(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(cpu.platform, "system", lambda: "Darwin")
    program(tmp_path, monkeypatch, "sysctl", "Apple M3")
    assert cpu.cpu_model(tmp_path / "none") == "Apple M3"
    assert cpu.instruction_sets(tmp_path / "none") == []


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Two packages of two cores of two threads: a thread of each core first, then the others; 32 MiB a package."""
    for number in range(8):
        core, package = number % 4 % 2, number % 4 // 2
        package_list = f"{2 * package}-{2 * package + 1},{2 * package + 4}-{2 * package + 5}"
        place(tmp_path, f"cpu{number}/topology", physical_package_id=package, core_id=core)
        place(tmp_path, f"cpu{number}/cache/index2", level=2, size="2048K", shared_cpu_list=f"{number % 4}")
        place(tmp_path, f"cpu{number}/cache/index3", level=3, size="32768K", shared_cpu_list=package_list)
    return tmp_path


def place(root: Path, folder: str, **files: object) -> None:
    """Small files as the kernel shows them."""
    for name, text in files.items():
        put(root / folder / name, text)


@pytest.mark.needs("linux")
@pytest.mark.parametrize(
    ("usable", "cores", "mebibytes"), [({0}, 1, 32), ({0, 4}, 1, 32), ({0, 1, 4}, 2, 32), (set(range(8)), 4, 64)]
)
def test_cores_and_caches_are_those_behind_the_usable_threads(host, usable, cores, mebibytes) -> None:
    assert (cpu.physical_cores(host, usable), cpu.last_level_cache(host, usable)) == (cores, mebibytes * 2**20)


def test_a_thread_of_each_core_comes_before_any_cores_second(host: Path) -> None:
    assert cpu.threads_by_turn([0, 1, 4, 5, 7], host) == [[0, 1, 7], [4, 5]]
