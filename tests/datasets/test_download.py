"""A dataset whose host does not answer is refused within seconds."""

import socket
import threading
import time
from typing import Any

import pytest

from whichdevice.models.datasets.download import reachable


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: Any) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_a_silent_host_costs_no_more_than_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        assert reachable(f"http://127.0.0.1:{silent.getsockname()[1]}/x", timeout=0.3) is False
        assert time.monotonic() - start < 30  # without a timeout it would take for ever


def test_a_slow_name_look_up_costs_no_more_than_the_timeout(monkeypatch: Any) -> None:
    told = threading.Event()

    def look_up(*_: Any, **__: Any) -> list[Any]:
        assert told.wait(60), "the answer waited for the look-up"
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    start = time.monotonic()
    assert reachable("http://example.invalid/x", timeout=0.3) is False
    assert time.monotonic() - start < 30
    told.set()
