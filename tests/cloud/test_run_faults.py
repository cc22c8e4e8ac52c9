"""Whatever becomes of connection, machine or study: what was measured comes home, and nothing stays alive."""

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from cloud.stage import Cloud

from whichdevice.cloud import bring_back, remote_run
from whichdevice.records.store import read_record

Fault = Callable[[Cloud], None]
MATMUL = "results/rented/runs/tpu/matmul"


def install_fails(cloud: Cloud) -> None:
    cloud.machine.on_install = "echo no such wheel; exit 1"


def run_fails(cloud: Cloud) -> None:
    cloud.machine.on_run = "exit 1"


def run_is_killed(cloud: Cloud) -> None:
    cloud.machine.on_run = "kill -KILL $$"


def life_ends_before_the_study(cloud: Cloud) -> None:
    cloud.write(max_hours=8 / 3600)
    cloud.machine.on_run = "sleep 60"


def record_is_garbled(cloud: Cloud) -> None:
    cloud.machine.on_run = f"echo '{{' > {MATMUL}/tensorflow-bfloat16-b512/r1/record.json"


def record_is_of_another_run(cloud: Cloud) -> None:
    here, other = f"{MATMUL}/tensorflow-bfloat16-b512/r1", f"{MATMUL}/tensorflow-bfloat16-b1024/r1"
    cloud.machine.on_run = f"cp {other}/record.json {here}/record.json"


FAULTS: dict[Fault, tuple[str, int]] = {
    install_fails: ("installing the software stack failed (exit status 1)", 0),
    run_fails: ("the tpu target failed (exit status 1)", 4),
    run_is_killed: ("the tpu target was ended by signal 9", 4),
    life_ends_before_the_study: ("tpu_vm.max_hours", 4),
    record_is_garbled: ("1 records were not taken", 3),
    record_is_of_another_run: ("1 records were not taken", 3),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_study_that_fails_is_one_line_and_its_whole_records_come_home(cloud: Cloud, fault: Fault) -> None:
    fault(cloud)
    done = cloud.tpu("run", "--yes")
    told, records = FAULTS[fault]
    assert done.code == 2, done.text
    assert told in done.err
    assert len(done.err.splitlines()) == 1, done.err
    assert len(cloud.records()) == records
    for record in Path().glob("results/rented/runs/**/record.json"):
        read_record(record)
    cloud.nothing_left()


def test_a_closed_port_is_told_with_the_firewall(cloud: Cloud) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cloud.write(ssh_port=port, ready_minutes=0.02)
    done = cloud.tpu("run", "--yes")
    assert done.code == 2
    assert f"does a firewall rule allow tcp:{port}" in done.err
    cloud.nothing_left()


def test_another_machine_behind_the_address_is_not_talked_to(cloud: Cloud) -> None:
    cloud.machine.wrong_host_key = True
    cloud.write(ready_minutes=0.02)
    done = cloud.tpu("run", "--yes")
    assert done.code == 2
    assert "Host key verification failed" in done.err
    assert cloud.machine.sessions == 0
    cloud.nothing_left()


def test_a_connection_that_breaks_is_made_again_and_no_line_is_lost(cloud: Cloud) -> None:
    cloud.api.on_test["drop"] = cloud.machine.drop
    cloud.machine.on_run = (
        "echo one; curl -s -o /dev/null -X POST https://tpu.googleapis.com/test/drop; sleep 1; echo two"
    )
    done = cloud.tpu("run", "--yes")
    assert done.code == 0, done.text
    log = done.out.splitlines()
    assert log.count("one") == log.count("two") == 1
    assert cloud.records() == cloud.every
    cloud.nothing_left()


def test_a_connection_that_stays_broken_ends_the_rent(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_run, "RECONNECT_SECONDS", 1.5)

    def cut() -> None:
        cloud.machine.refuse = True
        cloud.machine.drop()

    cloud.api.on_test["cut"] = cut
    cloud.machine.on_run = "curl -s -X POST https://tpu.googleapis.com/test/cut; sleep 60"
    done = cloud.tpu("run", "--yes")
    assert done.code == 2, done.text
    assert "no connection to the machine" in done.err
    cloud.nothing_left()


def test_a_full_disk_on_the_machine_is_told(cloud: Cloud) -> None:
    cloud.machine.programs["tar"] = "echo 'tar: write error: No space left on device' >&2; exit 2"
    done = cloud.tpu("run", "--yes")
    assert done.code == 2
    assert "sending the project: tar: write error: No space left on device" in done.err
    cloud.nothing_left()


def test_a_full_disk_here_keeps_the_records_elsewhere_and_says_how_to_unpack_them(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with monkeypatch.context() as broken:
        broken.setattr(bring_back, "_place", full)
        done = cloud.tpu("run", "--yes")
    assert done.code == 2
    assert "No space left on device" in done.err and "make room, then tar -xzkf" in done.err
    assert cloud.records() == []
    cloud.nothing_left()
    assert os.system("cd . && " + done.err.strip().partition("make room, then ")[2]) == 0
    assert cloud.records() == cloud.every


def test_an_archive_that_is_cut_is_not_taken(cloud: Cloud) -> None:
    cloud.machine.on_run = (
        "printf '#!/bin/sh\\n/usr/bin/tar \"$@\" | head -c 700\\n' >~/programs/tar; chmod +x ~/programs/tar"
    )
    done = cloud.tpu("run", "--yes")
    assert done.code == 2
    assert "cut or garbled" in done.err
    assert cloud.records() == []
    cloud.nothing_left()
