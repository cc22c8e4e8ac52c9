"""Limits of containers and schedulers decide how many processors and how much memory a run may use."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from whichdevice.machine import limits


@pytest.fixture(autouse=True)
def _sixteen_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "usable_processors", lambda: set(range(16)))


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def test_without_control_groups_affinity_decides(tmp_path: Path) -> None:
    assert limits.cpu_quota(tmp_path) is None
    assert limits.usable_cores(tmp_path) == 16


@pytest.mark.parametrize(
    ("text", "cores"),
    [("400000 100000", 4), ("250000 100000", 2), ("50000 100000", 1), ("max 100000", 16), ("6400000 100000", 16)],
)
def test_a_version_2_quota_rounds_down_to_at_least_one(tmp_path: Path, text: str, cores: int) -> None:
    put(tmp_path / "proc/self/cgroup", "0::/job")
    put(tmp_path / "sys/fs/cgroup/job/cpu.max", text)
    assert limits.usable_cores(tmp_path) == cores


def test_the_tightest_enclosing_group_counts(tmp_path: Path) -> None:
    put(tmp_path / "proc/self/cgroup", "0::/slurm/job/step")
    put(tmp_path / "sys/fs/cgroup/slurm/job/step/cpu.max", "max 100000")
    put(tmp_path / "sys/fs/cgroup/slurm/job/cpu.max", "800000 100000")
    put(tmp_path / "sys/fs/cgroup/slurm/cpu.max", "300000 100000")
    assert limits.usable_cores(tmp_path) == 3


def test_a_container_whose_group_path_is_the_hosts_finds_its_quota_at_the_mount(tmp_path: Path) -> None:
    put(tmp_path / "proc/self/cgroup", "0::/docker/0123abc")
    put(tmp_path / "sys/fs/cgroup/cpu.max", "200000 100000")
    assert limits.usable_cores(tmp_path) == 2


@pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(("quota", "cores"), [("350000", 3), ("-1", 16)])
def test_a_version_1_quota(tmp_path: Path, mount: str, quota: str, cores: int) -> None:
    put(tmp_path / "proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n0::/")
    put(tmp_path / f"sys/fs/cgroup/{mount}/job/cpu.cfs_quota_us", quota)
    put(tmp_path / f"sys/fs/cgroup/{mount}/job/cpu.cfs_period_us", "100000")
    assert limits.usable_cores(tmp_path) == cores


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
    assert limits.throttled_seconds(tmp_path) == 2.5


@pytest.mark.parametrize("stat", ["usage_usec 9000000", "throttled_usec ?", "\n"])
def test_where_nothing_counts_what_a_quota_held_up_there_is_no_number(tmp_path: Path, stat: str) -> None:
    put(tmp_path / "proc/self/cgroup", "0::/")
    assert limits.throttled_seconds(tmp_path) is None
    put(tmp_path / "sys/fs/cgroup/cpu.stat", stat)
    assert limits.throttled_seconds(tmp_path) is None


def test_a_group_counts_once_though_its_mount_has_two_names(tmp_path: Path) -> None:
    put(tmp_path / "proc/self/cgroup", "3:cpu,cpuacct:/job")
    put(tmp_path / "sys/fs/cgroup/cpu,cpuacct/job/cpu.stat", "throttled_time 2000000000")
    put(tmp_path / "sys/fs/cgroup/cpu,cpuacct/cpu.stat", "throttled_time 500000000")
    (tmp_path / "sys/fs/cgroup/cpu").symlink_to("cpu,cpuacct")
    assert limits.throttled_seconds(tmp_path) == 2.5


@pytest.mark.parametrize(("quota", "seconds"), [("50000 100000", None), ("100000 100000", 3.0)])
def test_a_quota_below_one_processor_holds_every_run_up_and_is_no_noise(
    tmp_path: Path, quota: str, seconds: float | None
) -> None:
    put(tmp_path / "proc/self/cgroup", "0::/job")
    put(tmp_path / "sys/fs/cgroup/job/cpu.max", quota)
    put(tmp_path / "sys/fs/cgroup/job/cpu.stat", "throttled_usec 3000000")
    assert limits.throttled_seconds(tmp_path) == seconds


def test_every_library_gets_the_same_number_of_threads() -> None:
    environment = limits.thread_environment(3)
    assert set(environment.values()) == {"3"}
    assert {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTEROP_THREADS", "PJRT_NPROC"} <= environment.keys()


MIB = 2**20


@pytest.fixture(autouse=True)
def _host(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = SimpleNamespace(total=8000 * MIB, available=6000 * MIB)
    monkeypatch.setattr(limits.psutil, "virtual_memory", lambda: facts)


def put_memory(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")


def test_kills_of_the_host_and_of_the_own_groups_are_counted(tmp_path: Path) -> None:
    assert limits.memory_kills(tmp_path) == 0
    put_memory(tmp_path / "proc/vmstat", "nr_free_pages 9\noom_kill 3\nballoon_inflate 0")
    put_memory(tmp_path / "proc/self/cgroup", "4:memory:/old\n0::/job")
    put_memory(tmp_path / "sys/fs/cgroup/job/memory.events", "oom 5\noom_kill 2")
    put_memory(tmp_path / "sys/fs/cgroup/memory/old/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1")
    assert limits.memory_kills(tmp_path) == 6


def test_without_limits_the_host_decides(tmp_path: Path) -> None:
    assert limits.total_memory(tmp_path) == 8000 * MIB
    assert limits.available_memory(tmp_path) == 6000 * MIB


def test_a_version_2_limit_counts_less_what_is_used_but_for_file_cache(tmp_path: Path) -> None:
    put_memory(tmp_path / "proc/self/cgroup", "0::/job")
    group = tmp_path / "sys/fs/cgroup/job"
    put_memory(group / "memory.max", 2000 * MIB)
    put_memory(group / "memory.current", 1500 * MIB)
    put_memory(group / "memory.stat", f"anon 1\ninactive_file {400 * MIB}")
    assert limits.total_memory(tmp_path) == 2000 * MIB
    assert limits.available_memory(tmp_path) == 900 * MIB


def test_a_version_1_limit(tmp_path: Path) -> None:
    put_memory(tmp_path / "proc/self/cgroup", "4:memory:/job")
    group = tmp_path / "sys/fs/cgroup/memory/job"
    put_memory(group / "memory.limit_in_bytes", 3000 * MIB)
    put_memory(group / "memory.usage_in_bytes", 1000 * MIB)
    put_memory(group / "memory.stat", f"total_inactive_file {100 * MIB}")
    assert limits.total_memory(tmp_path) == 3000 * MIB
    assert limits.available_memory(tmp_path) == 2100 * MIB


@pytest.mark.parametrize("limit", ["max", str(2**63 - 4096)])
def test_no_limit_is_none(tmp_path: Path, limit: str) -> None:
    put_memory(tmp_path / "proc/self/cgroup", "0::/job")
    put_memory(tmp_path / "sys/fs/cgroup/job/memory.max", limit)
    assert limits.total_memory(tmp_path) == 8000 * MIB


def test_the_peak_of_this_process_is_in_bytes_and_no_less_than_it_holds() -> None:
    holds = psutil.Process().memory_info().rss
    assert 0.9 * holds < limits.peak_memory() < 100 * holds  # the kernel counts in batches


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_reason_in_the_words_of_the_system_says_so(code: int, tmp_path: Path) -> None:
    assert limits.is_full(f"OSError: [Errno {code}] {os.strerror(code)}: 'weights.h5'", tmp_path)
    assert limits.is_full(f"OSError: unable to create file (error message = '{os.strerror(code)}')")


def test_another_reason_with_room_left_does_not(tmp_path: Path) -> None:
    assert not limits.is_full("ValueError: no", tmp_path, tmp_path / "gone")
    assert not limits.is_full(None, tmp_path)


def test_no_room_left_says_so_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.shutil, "disk_usage", lambda folder: SimpleNamespace(free=4096))
    assert limits.is_full("the process ended without a result (exit code 1); see its log", tmp_path)
