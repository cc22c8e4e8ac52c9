"""The process of `clients`, driven from the one that serves."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from whichdevice.errors import StudyError
from whichdevice.package_path import package_first


class Answers(NamedTuple):
    """What the clients of one load saw."""

    seconds: float
    latencies: list[float]  # of every request answered well
    failed: int
    reason: str | None  # of the first failure


class LoadProcess:
    """Gives commands and waits for what they brought."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def load(self, path: str, body: Path, clients: int, seconds: float = 0.0, requests: int = 0) -> Answers:
        """Send the same body again and again; returns when every answer is there. Raises StudyError."""
        command = {"path": path, "body_file": str(body), "clients": clients, "seconds": seconds, "requests": requests}
        streams: tuple[Any, Any] = self._process.stdin, self._process.stdout
        try:
            streams[0].write(json.dumps(command) + "\n")
            streams[0].flush()
            line = streams[1].readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise StudyError(f"serving: the process of the clients ended early (exit code {self._process.wait()})")
        return Answers(**json.loads(line))


@contextmanager
def load_process(port: int) -> Iterator[LoadProcess]:
    """Clients for the server on this port of loopback, while the context lasts."""
    process = subprocess.Popen(
        [sys.executable, "-m", "whichdevice.serving.clients", str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **package_first()},
    )
    try:
        yield LoadProcess(process)
    finally:
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
