"""Limits of memory of the host, of containers and schedulers are read, and a process keeps within its own."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from machine.conftest import put

from whichdevice.base import memory

MIB = 2**20
CGROUP = "sys/fs/cgroup"


@pytest.fixture(autouse=True)
def _host(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = SimpleNamespace(total=8000 * MIB, available=6000 * MIB)
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: facts)


def test_kills_of_the_host_and_of_the_own_groups_are_counted(tmp_path: Path) -> None:
    assert memory.memory_kills(tmp_path) == 0
    put(tmp_path / "proc/vmstat", "nr_free_pages 9\noom_kill 3\nballoon_inflate 0")
    put(tmp_path / "proc/self/cgroup", "4:memory:/old\n0::/job")
    put(tmp_path / "sys/fs/cgroup/job/memory.events", "oom 5\noom_kill 2")
    put(tmp_path / "sys/fs/cgroup/memory/old/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1")
    assert memory.memory_kills(tmp_path) == 6


@pytest.mark.parametrize(
    ("group", "names", "cache", "total", "left"),
    [
        ("job", ("memory.max", "memory.current"), "inactive_file", 2000, 900),
        ("memory/job", ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_inactive_file", 2000, 900),
    ],
)
def test_a_limit_counts_less_what_is_used_but_for_file_cache(tmp_path, group, names, cache, total, left) -> None:
    put(tmp_path / "proc/self/cgroup", "4:memory:/job" if group.startswith("memory") else "0::/job")
    for name, mebibytes in zip(names, (total, 1500), strict=True):
        put(tmp_path / CGROUP / group / name, mebibytes * MIB)
    put(tmp_path / CGROUP / group / "memory.stat", f"anon 1\n{cache} {400 * MIB}")
    assert (memory.total_memory(tmp_path), memory.available_memory(tmp_path)) == (total * MIB, left * MIB)


@pytest.mark.parametrize("limit", ["max", str(2**63 - 4096)])
def test_no_limit_leaves_the_host_s_memory(tmp_path: Path, limit: str) -> None:
    put(tmp_path / "proc/self/cgroup", "0::/job")
    put(tmp_path / CGROUP / "job/memory.max", limit)
    assert (memory.total_memory(tmp_path), memory.available_memory(tmp_path)) == (8000 * MIB, 6000 * MIB)


@pytest.mark.parametrize(
    ("limit", "least", "most"),
    [("max", 0, 3000), (2000, 0, 1000), (500, 400, 400)],
    ids=["half of the host's", "half of the container's", "as much as a framework takes"],
)
def test_what_is_computed_takes_a_part_of_the_memory(tmp_path: Path, limit: object, least: int, most: int) -> None:
    put(tmp_path / "proc/self/cgroup", "0::/job")
    put(tmp_path / CGROUP / "job/memory.max", limit if isinstance(limit, str) else limit * MIB)
    assert memory.most_to_compute(6000 * MIB, least * MIB, tmp_path) == most * MIB
    assert memory.most_to_compute(10 * MIB, 0, tmp_path) == 10 * MIB


@pytest.mark.needs("linux")
def test_a_process_takes_no_more_than_it_allows_itself() -> None:
    with memory.memory_within(100 * MIB), pytest.raises(MemoryError):
        np.ones(200 * MIB, np.int8)
    assert np.ones(200 * MIB, np.int8).nbytes == 200 * MIB


def test_the_peak_of_this_process_is_in_bytes_and_no_less_than_it_holds() -> None:
    holds = psutil.Process().memory_info().rss
    assert 0.9 * holds < memory.peak_memory() < 100 * holds  # the kernel counts in batches


@pytest.mark.needs("linux")
def test_the_peak_of_a_process_leaves_out_what_its_parent_holds() -> None:
    holds = np.ones(300 * MIB, np.int8)
    code = "from whichdevice.base.memory import peak_memory\nprint(peak_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < holds.nbytes
