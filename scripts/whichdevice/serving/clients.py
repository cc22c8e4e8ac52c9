"""Clients of a prediction service, in a process of their own: `python -m whichdevice.serving.clients PORT`.

Reads one JSON command a line, {"path", "body_file", "clients", "seconds", "requests"}, and answers each with one
line once every response has been read in full. Each client is a thread with one connection that asks again as soon as
it has its answer (a closed loop), until `seconds` are over and `requests` were made by all together.
"""

import contextlib
import http.client
import json
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
TIMEOUT = 60.0  # seconds for one answer
HEADERS = {"Content-Type": "application/json"}


@dataclass
class Load:
    """One command, and what the clients saw."""

    port: int
    path: str
    body: bytes
    clients: int
    seconds: float
    requests: int
    latencies: list[list[float]] = field(default_factory=list)
    failed: int = 0
    reason: str | None = None
    _begun: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> dict[str, Any]:
        """Seconds from the first request to the last answer, and the latency of each answered request."""
        ready = threading.Barrier(self.clients + 1)
        self.latencies = [[] for _ in range(self.clients)]
        threads = [threading.Thread(target=self._client, args=(own, ready)) for own in self.latencies]
        for thread in threads:
            thread.start()
        ready.wait()
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
        found = [latency for own in self.latencies for latency in own]
        return {"seconds": took, "latencies": found, "failed": self.failed, "reason": self.reason}

    def _client(self, own: list[float], ready: threading.Barrier) -> None:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=TIMEOUT)
        with contextlib.suppress(OSError):  # every request will say so
            connection.connect()
        ready.wait()
        end = time.perf_counter() + self.seconds
        while self._goes_on(end):
            began = time.perf_counter()
            if self._ask(connection):
                own.append(time.perf_counter() - began)
        connection.close()

    def _goes_on(self, end: float) -> bool:
        with self._lock:
            self._begun += 1
            return self._begun <= self.requests or time.perf_counter() < end

    def _ask(self, connection: http.client.HTTPConnection) -> bool:
        """Whether the request was answered well; its answer has been read to the end."""
        try:
            connection.request("POST", self.path, self.body, HEADERS)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()  # the next request connects anew
            return self._failure(f"{type(error).__name__}: {error}")
        return response.status == 200 or self._failure(f"{response.status} {content[:200].decode(errors='replace')}")

    def _failure(self, reason: str) -> bool:
        with self._lock:
            self.failed += 1
            self.reason = self.reason or reason
        return False


def main() -> int:
    """Until standard input closes, as it does when whoever gives the commands ends."""
    port = int(sys.argv[1])
    for line in sys.stdin:
        command = json.loads(line)
        body = Path(command.pop("body_file")).read_bytes()
        print(json.dumps(Load(port=port, body=body, **command).run()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
