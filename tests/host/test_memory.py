"""Memory under control groups."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from whichdevice.machine import limits

MIB = 2**20


@pytest.fixture(autouse=True)
def _host(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = SimpleNamespace(total=8000 * MIB, available=6000 * MIB)
    monkeypatch.setattr(limits.psutil, "virtual_memory", lambda: facts)


def put(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")


def test_kills_of_the_host_and_of_the_own_groups_are_counted(tmp_path: Path) -> None:
    assert limits.memory_kills(tmp_path) == 0
    put(tmp_path / "proc/vmstat", "nr_free_pages 9\noom_kill 3\nballoon_inflate 0")
    put(tmp_path / "proc/self/cgroup", "4:memory:/old\n0::/job")
    put(tmp_path / "sys/fs/cgroup/job/memory.events", "oom 5\noom_kill 2")
    put(tmp_path / "sys/fs/cgroup/memory/old/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1")
    assert limits.memory_kills(tmp_path) == 6


def test_without_limits_the_host_decides(tmp_path: Path) -> None:
    assert limits.total_memory(tmp_path) == 8000 * MIB
    assert limits.available_memory(tmp_path) == 6000 * MIB


def test_a_version_2_limit_counts_less_what_is_used_but_for_file_cache(tmp_path: Path) -> None:
    put(tmp_path / "proc/self/cgroup", "0::/job")
    group = tmp_path / "sys/fs/cgroup/job"
    put(group / "memory.max", 2000 * MIB)
    put(group / "memory.current", 1500 * MIB)
    put(group / "memory.stat", f"anon 1\ninactive_file {400 * MIB}")
    assert limits.total_memory(tmp_path) == 2000 * MIB
    assert limits.available_memory(tmp_path) == 900 * MIB


def test_a_version_1_limit(tmp_path: Path) -> None:
    put(tmp_path / "proc/self/cgroup", "4:memory:/job")
    group = tmp_path / "sys/fs/cgroup/memory/job"
    put(group / "memory.limit_in_bytes", 3000 * MIB)
    put(group / "memory.usage_in_bytes", 1000 * MIB)
    put(group / "memory.stat", f"total_inactive_file {100 * MIB}")
    assert limits.total_memory(tmp_path) == 3000 * MIB
    assert limits.available_memory(tmp_path) == 2100 * MIB


@pytest.mark.parametrize("limit", ["max", str(2**63 - 4096)])
def test_no_limit_is_none(tmp_path: Path, limit: str) -> None:
    put(tmp_path / "proc/self/cgroup", "0::/job")
    put(tmp_path / "sys/fs/cgroup/job/memory.max", limit)
    assert limits.total_memory(tmp_path) == 8000 * MIB


def test_the_peak_of_this_process_is_in_bytes_and_no_less_than_it_holds() -> None:
    holds = psutil.Process().memory_info().rss
    assert 0.9 * holds < limits.peak_memory() < 100 * holds  # the kernel counts in batches
