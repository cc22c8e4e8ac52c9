"""Who used the processors between two moments."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from whichdevice.machine import noise as processor_time_module
from whichdevice.machine.noise import ProcessorTime, others_share, processor_time, steal_share


def at(wall: float, busy: float = 0.0, own: float = 0.0, steal: float | None = 0.0, cores: int = 4) -> ProcessorTime:
    return ProcessorTime(wall=wall, total=wall * cores, busy=busy, own=own, steal=steal)


def test_company_on_processors_that_we_do_not_use_is_none() -> None:
    sixteen = at(10.0, busy=120.0, own=0.0, cores=16)
    assert others_share(at(0.0, cores=16), sixteen, cores=4) == 0.0
    full = at(10.0, busy=150.0, own=0.0, cores=16)
    assert others_share(at(0.0, cores=16), full, cores=4) == pytest.approx(0.75)


def test_a_system_that_states_no_steal_has_none() -> None:
    assert steal_share(at(0.0, steal=None), at(10.0, steal=None)) is None


def test_snapshots_of_this_host_grow() -> None:
    before = processor_time()
    sum(range(2_000_000))
    after = processor_time()
    assert after.wall > before.wall and after.own > before.own and after.total >= before.total


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux tells which processors are ours")
@pytest.mark.parametrize(
    ("listed", "own", "busy"),
    [
        ([0, 1, 2], {1}, 1.0),
        ([0, 1, 2], {0, 2}, 100.0),
        ([0, 2, 4], {2}, 1.0),  # the others are offline and not listed
        ([0, 2, 4], {0, 4}, 100.0),
        ([0, 2, 4], {1}, 101.0),  # numbers of two kinds: all count
        ([0, 1], {1}, 101.0),
        ([], {1}, 101.0),
    ],
)
def test_only_the_processors_that_this_process_may_use_count(
    listed: list[int], own: set[int], busy: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = psutil.cpu_times(percpu=True)
    idle, full = (times[0]._replace(user=user, nice=0, system=0, irq=0, softirq=0, idle=9.0) for user in (1.0, 50.0))
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: [full, idle, full])
    stat = tmp_path / "stat"
    stat.write_text("".join(f"cpu{number} 1 2 3\n" for number in ["", *listed]) + "intr 5\n", encoding="ascii")
    monkeypatch.setattr(processor_time_module, "STAT", stat)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: own)
    assert processor_time().busy == busy


def test_a_child_that_still_runs_is_ones_own() -> None:
    before = processor_time()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        try:
            deadline = time.monotonic() + 30
            while processor_time().own - before.own < 0.2:
                assert time.monotonic() < deadline, "the child's time is not counted"
                time.sleep(0.05)
        finally:
            child.kill()
