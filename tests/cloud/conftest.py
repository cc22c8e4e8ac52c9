"""A stand-in for Google's API and a machine behind a real ssh server, both on loopback."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cloud.fake_tpu_api import FakeTpuApi
from cloud.stage import Cloud, write_project

from whichdevice.cloud import machine

PROGRAMS = ("ssh", "ssh-keygen", "curl", "git", "setsid", "timeout")


@pytest.fixture
def cloud(
    working_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Cloud]:
    """Everything on loopback; at the end nothing of it is left, nor any process of a machine."""
    pytest.importorskip("google.cloud.tpu_v2", reason="no google-cloud-tpu: sh envs/extra.sh cloud")
    pytest.importorskip("asyncssh", reason="no asyncssh: make test-environment")
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        pytest.skip(f"no {missing[0]} on this machine")
    from cloud.ssh_machine import SshMachines

    runs = write_project(working_folder)
    machines = SshMachines(tmp_path / "machines")
    api = FakeTpuApi(machines.boot, machines.stop)
    machines.fake_api = api.address
    monkeypatch.setattr(machine, "DELETE_SECONDS", 30.0)  # of tests that hang
    monkeypatch.setenv("TPU_EMULATOR_HOST", api.address)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    stage = Cloud(working_folder, api, machines, capsys, runs)
    stage.write()
    try:
        yield stage
    finally:
        machines.close()
        api.close()
