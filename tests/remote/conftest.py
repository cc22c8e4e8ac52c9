"""A bucket on loopback, made anew for each test, and places of other kinds."""

import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from whichdevice.study.remote.transfer import Place, open_place

EMULATOR = "gcp_storage_emulator"


@pytest.fixture(scope="session")
def emulator() -> Iterator[str]:
    """Address of a storage emulator."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", EMULATOR, "start", "--host=127.0.0.1", f"--port={port}", "--in-memory", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address)
        yield address
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def google(emulator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's storage is the emulator."""
    use_google(emulator, monkeypatch)


def use_google(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process, and those that it starts, take `address` for Google's storage, without a login."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)


@pytest.fixture
def bucket(google: None) -> Place:
    """A place in a new bucket."""
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    place = open_place(f"gs://{name}/some/prefix")
    place.fs.mkdir(name)
    return place


@pytest.fixture(params=["bucket", "folder", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place of every kind that is tested."""
    if request.param == "bucket":
        return request.getfixturevalue("bucket")
    address = {"folder": str(tmp_path / "a plâce"), "memory": f"memory://{uuid.uuid4().hex}/prefix"}[request.param]
    return open_place(address)


@pytest.fixture
def file_of(tmp_path: Path) -> Callable[..., Path]:
    """Make a file of random bytes."""

    def make(name: str, nbytes: int, seed: int = 0) -> Path:
        path = tmp_path / "here" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(np.random.default_rng(seed).bytes(nbytes))
        return path

    return make


def _wait_for(address: str) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
