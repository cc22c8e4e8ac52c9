"""Measurements wait for a host that leaves the processors alone, and not for ever."""

import time

import pytest
from benchmarks.quiet_host import PAUSE, PROBE, QuietHost, stolen_share


def host_of(*shares: float, patience: float) -> QuietHost:
    """A host whose probes see these shares, one after the other, the last one for ever."""
    left = list(shares)
    return QuietHost(patience, lambda: left.pop(0) if len(left) > 1 else left[0])


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of each pause, which take no time."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def test_it_waits_until_a_probe_is_quiet(slept: list[float]) -> None:
    host = host_of(0.30, 0.05, 0.01, patience=600)
    host.wait()
    assert slept == [PAUSE] * 2 and host.waited == 2 * (PAUSE + PROBE) and host.refused == 0


def test_patience_is_one_for_all_measurements(slept: list[float]) -> None:
    host = host_of(0.30, patience=30)
    for _ in range(4):
        host.wait()
    assert len(slept) == 3 and host.refused == 4
    assert "4 processes began on a busy one" in str(host)


def test_without_patience_nothing_is_probed() -> None:
    QuietHost(0, lambda: pytest.fail("probed")).wait()


def test_a_probe_sees_a_share() -> None:
    assert 0 <= stolen_share(0.2) <= 1
