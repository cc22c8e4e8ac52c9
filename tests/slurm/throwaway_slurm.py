"""A throw-away Slurm: three nodes and partitions on this machine, without systemd, in a folder of its own.

It has its own munge and ports, and no accounting. Commands find it through wrappers first on PATH and not by
/etc/slurm, so a real Slurm of this machine is neither seen nor touched.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import psutil
from slurm.slurm_files import NODES, slurm_files

COMMANDS = ("sbatch", "srun", "squeue", "sacct", "scancel", "sinfo", "scontrol")
PATIENCE = 90  # seconds for a daemon to answer on a busy machine


@dataclass(frozen=True)
class Job:
    """A job as squeue tells it; the comment names rule and wildcards."""

    id: str
    partition: str
    node: str
    state: str
    comment: str


@dataclass
class ThrowawaySlurm:
    """Started by `with`; everything it started is gone afterwards."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp")))
    daemons: dict[str, subprocess.Popen] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Variables for whatever shall use this Slurm."""
        path = f"{self.folder}/bin:{os.environ['PATH']}:/usr/sbin:/sbin"
        others = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))}
        return {**others, "PATH": path, "SLURM_CONF": f"{self.folder}/slurm.conf"}

    def __enter__(self) -> "ThrowawaySlurm":
        self.folder.chmod(0o755)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _start(self) -> None:
        slurm_files(self.folder)
        for command in COMMANDS:
            self._wrapper(command)
        munge = f"{self.folder}/munge"
        options = [f"--{name}={munge}.{name.partition('-')[0]}" for name in ("key-file", "pid-file", "log-file")]
        self._daemon(
            "munged", "--foreground", "--force", *options, f"--socket={munge}.socket", f"--seed-file={munge}.seed"
        )
        self._until(lambda: self._answers("munge", "-n", "-S", f"{munge}.socket"), "munged")
        self._daemon("slurmctld", "-D")
        self._until(lambda: self._answers("scontrol", "ping"), "slurmctld")
        for node in NODES:
            self._daemon("slurmd", "-D", "-N", node, name=node)
        self._until(lambda: self.ask("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * len(NODES), "nodes")

    def jobs(self) -> list[Job]:
        """Every job that Slurm still knows, finished ones too."""
        lines = self.ask("squeue", "-h", "--states=all", "-o", "%i|%P|%N|%T|%k").splitlines()
        return [Job(*line.split("|", 4)) for line in lines]

    def ask(self, *command: str) -> str:
        """Return what a command of this Slurm prints."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr or done.stdout}")
        return done.stdout

    def stop(self) -> None:
        """End all of it, the last started first, and remove the folder."""
        if "slurmctld" in self.daemons:
            with contextlib.suppress(Exception):
                self.ask("scancel", "--full", "--user", psutil.Process().username())
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self) -> list[psutil.Process]:
        """Return what runs for this Slurm; processes that watch jobs come first."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                variables = process.environ()
                ours = f"{self.folder}/" in variables.get("SLURM_CONF", "") + variables.get("PATH", "")
                if ours and process.pid != os.getpid():
                    found.append(process)
        parents = [parent for process in found if (parent := process.parent()) and parent.name() == "slurmstepd"]
        return list(dict.fromkeys(parents + found))

    def _daemon(self, program: str, *options: str, name: str = "") -> None:
        log = (self.folder / f"{name or program}.out").open("ab")
        self.daemons[name or program] = subprocess.Popen(
            [program, *options],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def _wrapper(self, command: str) -> None:
        """The executor's job step drops SLURM_CONF from its environment: the wrapper puts it back."""
        real = shutil.which(command)
        if real is None:
            return
        wrapper = self.folder / "bin" / command
        wrapper.parent.mkdir(exist_ok=True)
        wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec {real} "$@"\n', encoding="utf-8")
        wrapper.chmod(0o755)

    def _answers(self, *command: str) -> bool:
        try:
            self.ask(*command)
        except (RuntimeError, subprocess.TimeoutExpired):
            return False
        return True

    def _until(self, what: Callable[[], bool], who: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not what():
            if time.monotonic() > deadline:
                said = "".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.out"))
                raise RuntimeError(f"the throw-away Slurm: {who} did not come up in {PATIENCE} s\n{said}")
            time.sleep(0.2)
