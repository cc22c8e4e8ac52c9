"""The rate at which this machine reads its memory."""

import pytest

from whichdevice.machine import memory_rate


def test_the_rate_is_one_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_rate, "TOTAL_MIB", 64)
    monkeypatch.setattr(memory_rate, "PART_MIB", 16)
    assert 1e8 < memory_rate.read_rate() < 1e13
