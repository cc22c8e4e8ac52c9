"""A study whose jobs run elsewhere: a copy of the project, and what the machines there have."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
APART = ROOT / ".venv/apart"
PARTS = ["Snakefile", "rules", "scripts", "config", "envs", "profiles", "docs"]
TIMEOUT = 900  # seconds: other measurements on this host may have to end first
IMAGE = "registry.example/whichdevice:1"


@dataclass
class RemoteStudy:
    """A working copy and the environment that its calls of Snakemake get."""

    folder: Path
    profile: str
    environment: dict[str, str] = field(default_factory=dict)

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake by the profile, on study.yaml."""
        command = [sys.executable, "-m", "snakemake", "--profile", self.profile, "--configfile", "study.yaml"]
        command += ["--config", "run_on=all", "--default-storage-prefix", "gs://bucket/prefix"]
        command += ["--storage-gcs-project", "a-project", "--container-image", IMAGE]
        command += ["--envvars", "STORAGE_EMULATOR_HOST", "--seconds-between-status-checks", "1"]
        return subprocess.run(
            [*command, *arguments],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
        )


def copy_study(folder: Path, profile: str, study: dict[str, Any], extra: str) -> RemoteStudy:
    """A copy of the project with study.yaml; `extra` names the plugins that its calls find."""
    folder.mkdir()
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, folder / part)
    (folder / "study.yaml").write_text(yaml.safe_dump({"forecast": {"devices": []}, **study}), encoding="utf-8")
    return RemoteStudy(folder, f"profiles/{profile}", {"PYTHONPATH": str(APART / extra)})


def container_environment(folder: Path, workdir: str) -> dict[str, str]:
    """What the image sets, on this machine: this environment's programs, the job's own code, and a pip that tells."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "pip").write_text(f'#!/bin/sh\necho "$@" >>{folder}/pip-was-called\n', encoding="utf-8")
    (programs / "pip").chmod(0o755)
    (folder / "home").mkdir()
    return {
        "PATH": os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": f"{workdir}/scripts{os.pathsep}{APART / 'kubernetes'}",
        "HOME": str(folder / "home"),
    }
