"""`tpu up`, `ssh`, `list` and `down`: what is alive is seen, and what is ours is removed."""

import io
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from cloud.stage import Cloud

from whichdevice.cloud import ssh
from whichdevice.cloud.leftovers import leftovers, table
from whichdevice.cloud.tpu_api import TpuApi
from whichdevice.config.model import TpuVm

ZONES = ["us-central1-b", "europe-west4-a"]


def alive_in(cloud: Cloud, zone: str, name: str, **labels: str) -> None:
    """Somebody's machine."""
    path = f"projects/rent-a-tpu/locations/{zone}/nodes/{name}"
    made = "2026-01-01T00:00:00Z"
    cloud.api.nodes[path] = {"name": path, "state": 2, "acceleratorType": "v2-8", "labels": labels, "createTime": made}


def test_up_leaves_a_machine_that_ssh_reaches_and_down_removes(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    up = cloud.tpu("up", "--yes")
    assert up.code == 0, up.text
    [name] = cloud.api.alive()
    assert f"tpu ssh {name}" in up.out and f"tpu down {name}" in up.out
    commands: list[list[str]] = []
    monkeypatch.setattr(ssh.subprocess, "call", lambda command: commands.append(command) or 0)
    assert cloud.tpu("ssh").code == 0
    assert commands[0][0] == "ssh" and commands[0][-1] == "127.0.0.1"
    assert "READY" in cloud.tpu("list").out
    assert cloud.tpu("down", "--yes").code == 0
    cloud.nothing_left()


def test_up_that_fails_leaves_nothing(cloud: Cloud) -> None:
    cloud.machine.wrong_host_key = True
    cloud.write(ready_minutes=0.02)
    assert cloud.tpu("up", "--yes").code == 2
    cloud.nothing_left()


def test_down_takes_what_has_every_label_in_every_zone_and_nothing_else(cloud: Cloud) -> None:
    cloud.write(zone=ZONES, labels={"owner": "me"})
    mine = {"made-by": "whichdevice", "owner": "me"}
    alive_in(cloud, ZONES[0], "mine-1", **mine)
    alive_in(cloud, ZONES[1], "mine-2", **mine)
    alive_in(cloud, ZONES[1], "theirs", **{"made-by": "whichdevice", "owner": "them"})
    alive_in(cloud, ZONES[0], "production", service="shop")
    done = cloud.tpu("down", "--yes")
    assert done.code == 0, done.text
    assert sorted(cloud.api.alive()) == ["production", "theirs"]


def test_down_asks_and_takes_one_by_name(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        alive_in(cloud, ZONES[0], name, **{"made-by": "whichdevice"})
    assert "add --yes" in cloud.tpu("down").err

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert "Nothing was done." in cloud.tpu("down").err
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert cloud.tpu("down", "one").code == 0
    assert cloud.api.alive() == ["two"]


def test_list_tells_age_and_an_estimate_of_the_money(cloud: Cloud) -> None:
    alive_in(cloud, ZONES[0], "one", **{"made-by": "whichdevice"})
    api = TpuApi()
    [found] = leftovers(api, TpuVm(zone=[ZONES[0]]), "rent-a-tpu")
    _, row = table([found], found.made + timedelta(hours=2))
    assert row.split() == ["one", "us-central1-b", "v2-8", "READY", "2.0", "9.00"]
    assert "Money is an estimate" in cloud.tpu("list").out


def test_nothing_alive_is_told(cloud: Cloud) -> None:
    assert "Nothing is alive in us-central1-b" in cloud.tpu("list").out
    assert "Nothing is alive" in cloud.tpu("down", "--yes").out
    assert "no machine is alive" in cloud.tpu("ssh").err


def test_ssh_to_a_machine_made_elsewhere_names_the_other_way(cloud: Cloud) -> None:
    alive_in(cloud, ZONES[0], "one", **{"made-by": "whichdevice"})
    assert "gcloud compute tpus tpu-vm ssh one" in cloud.tpu("ssh").err
    assert not (Path.home() / ".ssh/whichdevice").exists()
