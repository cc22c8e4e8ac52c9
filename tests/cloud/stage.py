"""A small project to be measured on a rented machine, and the commands that do it."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import synthetic
import yaml
from cloud.fake_tpu_api import FakeTpuApi

from whichdevice.__main__ import main
from whichdevice.cells import Run
from whichdevice.cloud.keys import state_folder
from whichdevice.config.model import Study
from whichdevice.records.store import write_record
from whichdevice.study_runs import study_runs

if TYPE_CHECKING:
    from cloud.ssh_machine import SshMachines

CONFIG: dict[str, Any] = {
    "study": "rented",
    "data": {"source": "standin"},
    "devices": {"cpu": {"kind": "cpu"}, "tpu": {"kind": "tpu", "replicas": 8, "hardware": "TPU v2"}},
    "measure": {"repeats": 2},
    "forecast": {"devices": []},
    "workloads": {"matmul": {"batch_size": [512, 1024], "precision": ["bfloat16"]}},
}
VM = {"project": "rent-a-tpu", "zone": ["us-central1-b"], "ready_minutes": 0.1, "queue_minutes": 0.1, "max_hours": 1}
INSTALL = """#!/bin/sh
set -e
eval "$ON_INSTALL"
mkdir -p .venv/bin
cp measure.sh .venv/bin/snakemake
chmod +x .venv/bin/snakemake
echo installed "$@"
"""
MEASURE = """#!/bin/sh
echo measuring "$@"
mkdir -p results/rented
[ -d results/rented/runs ] || cp -R prepared results/rented/runs
eval "$ON_RUN"
"""


@dataclass
class Outcome:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Both streams."""
        return self.out + self.err


@dataclass
class Cloud:
    """The whole stage; `tpu` runs a command in this process, `process` in one of its own."""

    folder: Path
    api: FakeTpuApi
    machine: "SshMachines"
    capture: pytest.CaptureFixture[str]
    runs: list[Run]

    def write(self, config: dict[str, Any] | None = None, **vm: Any) -> None:
        """The study's config, on machines of this stage."""
        whole = {**CONFIG, **(config or {}), "tpu_vm": {**VM, "ssh_port": self.machine.port, **vm}}
        (self.folder / "study.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")

    def tpu(self, action: str, *arguments: str) -> Outcome:
        """`python -m whichdevice tpu <action>`."""
        self.capture.readouterr()
        code = main(["tpu", action, "--configfile", "study.yaml", *arguments])
        return Outcome(code, *self.capture.readouterr())

    def process(self, action: str, *arguments: str) -> "subprocess.Popen[str]":
        """The same as a process that may be killed."""
        command = [sys.executable, "-m", "whichdevice", "tpu", action, "--configfile", "study.yaml", *arguments]
        return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def records(self) -> list[str]:
        """Runs that have a record here."""
        return sorted(
            str(path.parent.relative_to("results/rented/runs")) for path in Path().rglob("runs/**/record.json")
        )

    def nothing_left(self) -> None:
        """No machine, no queued request, no process of a machine, no key to one."""
        assert self.api.alive() == []
        assert self.machine.machines == {}
        assert not list(state_folder().glob("*"))
        assert not [path for path in Path("results").rglob(".from-*")]

    @property
    def every(self) -> list[str]:
        """Runs that the machine measures."""
        return sorted(run.path for run in self.runs)


def write_project(folder: Path) -> list[Run]:
    """A project with a workflow and a software stack of a few lines, and the records that it will measure."""
    study = Study.model_validate(CONFIG)
    runs = [run for run in study_runs(study) if run.cell.device == "tpu"]
    for name, text in {"Snakefile": "", "scripts/x.py": "", "envs/install.sh": INSTALL, "measure.sh": MEASURE}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for run in runs:
        write_record(synthetic.record_of(study, run), folder / "prepared" / run.path / "record.json")
    return runs
