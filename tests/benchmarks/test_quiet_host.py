"""Measurements wait for a host that leaves the processors alone, and not for ever."""

import time

import pytest
from benchmarks.quiet_host import PAUSE, PROBE, Probe, QuietHost


def host_of(*shares: float, patience: float) -> QuietHost:
    """A host whose probes see these shares taken, one after the other, the last one for ever."""
    return seen_by([Probe(share, 1.0) for share in shares], patience)


def seen_by(probes: list[Probe], patience: float = 600) -> QuietHost:
    return QuietHost(patience, lambda: probes.pop(0) if len(probes) > 1 else probes[0])


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of each pause, which take no time."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def test_it_waits_until_a_probe_is_quiet(slept: list[float]) -> None:
    host = host_of(0.30, 0.05, 0.01, patience=600)
    assert host.wait()
    assert slept == [PAUSE] * 2 and host.waited == 2 * (PAUSE + PROBE) and host.refused == 0


def test_processors_that_are_slower_than_before_are_not_quiet(slept: list[float]) -> None:
    host = seen_by([Probe(0, 1.0), Probe(0, 1.9), Probe(0, 1.05)])
    assert [host.is_quiet() for _ in range(3)] == [True, False, True]


def test_patience_is_one_for_all_measurements(slept: list[float]) -> None:
    host = host_of(0.30, patience=30)
    assert not any([host.wait() for _ in range(4)])
    assert len(slept) == 3 and host.refused == 4
    assert "4 processes began on a busy one" in str(host)


def test_without_patience_nothing_is_probed() -> None:
    host = QuietHost(0, lambda: pytest.fail("probed"))
    assert not host.wait() and not host.is_quiet()
