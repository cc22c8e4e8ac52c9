"""Whoever stops the program, and however: nothing stays alive, and what was measured comes home where it can."""

import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
from cloud.stage import Cloud


def send(number: int) -> Callable[[], None]:
    """Send this process a signal, once."""
    numbers = [number]
    return lambda: os.kill(os.getpid(), numbers.pop()) if numbers else None


@pytest.mark.parametrize("call", ["create nodes", "get operations", "get nodes", ":getGuestAttributes nodes"])
def test_ctrl_c_while_it_is_being_made(cloud: Cloud, call: str) -> None:
    cloud.api.on_call[call] = send(signal.SIGINT)
    done = cloud.tpu("run", "--yes")
    assert done.code == 130, done.text
    assert "Stopped." in done.out
    cloud.nothing_left()


def test_ctrl_c_while_it_is_queued(cloud: Cloud) -> None:
    cloud.write(queued=True)
    cloud.api.on_call["get queuedResources"] = send(signal.SIGINT)
    assert cloud.tpu("run", "--yes").code == 130
    cloud.nothing_left()


def test_ctrl_c_while_it_installs(cloud: Cloud) -> None:
    cloud.machine.on_install = f"kill -INT {os.getpid()}; sleep 60"
    assert cloud.tpu("run", "--yes").code == 130
    cloud.nothing_left()


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_stopping_a_measurement_brings_the_finished_records_home(cloud: Cloud, name: str) -> None:
    cloud.machine.on_run = f"kill -{name} {os.getpid()}; sleep 60"
    done = cloud.tpu("run", "--yes")
    assert done.code == 130, done.text
    assert cloud.records() == cloud.every
    cloud.nothing_left()


def test_a_second_ctrl_c_gives_the_records_up_and_deletes(cloud: Cloud) -> None:
    me = os.getpid()
    slow = f"printf '#!/bin/sh\\nkill -INT {me}; sleep 60\\n' >~/programs/tar; chmod +x ~/programs/tar"
    cloud.machine.on_run = f"{slow}; kill -INT {me}; sleep 60"
    done = cloud.tpu("run", "--yes")
    assert done.code == 130, done.text
    assert cloud.records() == []
    cloud.nothing_left()


def test_no_signal_ends_the_deleting(cloud: Cloud) -> None:
    def storm() -> None:
        for _ in range(5):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.02)

    cloud.api.on_call["delete nodes"] = storm
    done = cloud.tpu("run", "--yes")
    assert done.code == 0, done.text
    assert "Still deleting" in done.out
    cloud.nothing_left()


@pytest.mark.slow
def test_a_terminal_that_is_gone_does_not_keep_the_machine_alive(cloud: Cloud) -> None:
    cloud.machine.on_run = "sleep 60"
    process = cloud.process("run", "--yes")
    assert process.stdout is not None
    while "measuring" not in process.stdout.readline():
        assert process.poll() is None
    process.stdout.close()
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 130
    cloud.nothing_left()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "queued"), [("create", False), ("get", True), ("measuring", False), ("measuring", True)]
)
def test_kill_9_and_then_tpu_down(cloud: Cloud, moment: str, queued: bool) -> None:
    cloud.write(queued=queued)
    killed: list[subprocess.Popen[str]] = []

    def kill() -> None:
        if killed:
            killed[0].kill()

    collection = "queuedResources" if queued else "nodes"
    cloud.api.on_call[f"{moment} {collection}"] = kill
    cloud.api.on_test["kill"] = kill
    cloud.machine.on_run = "curl -s -X POST https://tpu.googleapis.com/test/kill; sleep 60"
    killed.append(cloud.process("run", "--yes"))
    assert killed[0].wait(60) == -signal.SIGKILL
    cloud.api.on_call.clear()
    deadline = time.monotonic() + 10
    while not cloud.api.alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert cloud.api.alive(), "the client had asked for it"
    done = cloud.tpu("down", "--yes")
    assert done.code == 0, done.text
    cloud.nothing_left()


@pytest.mark.slow
def test_kill_9_and_then_nobody(cloud: Cloud) -> None:
    cloud.write(max_hours=3 / 3600)
    cloud.machine.on_run = "sleep 60"
    process = cloud.process("run", "--yes")
    assert process.stdout is not None
    while "measuring" not in process.stdout.readline():
        assert process.poll() is None
    process.kill()
    process.wait()
    assert cloud.api.alive()
    deadline = time.monotonic() + 30
    while cloud.api.alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert cloud.api.alive() == [], "the machine's own startup script deletes it"
