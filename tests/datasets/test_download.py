"""A dataset whose host does not answer is refused within seconds."""

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from typing import Any

import pytest

from whichdevice.datasets.download import reachable


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: Any) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Answers(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(int(self.path.strip("/")))
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with TCPServer(("127.0.0.1", 0), Answers) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()


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
