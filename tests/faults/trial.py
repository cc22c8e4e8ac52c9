"""A small study in a copy of the project, called again and again, and what it lost."""

import contextlib
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import psutil
import yaml
from faults.watching import RecordWatch

from whichdevice.records.store import read_record

STUDY = {
    "devices": {"cpu": {"kind": "cpu"}},
    "measure": {"seconds": 0.2, "min_steps": 1, "repeats": 3, "timeout": 600, "retry_disturbed": False},
    "train": {"epochs": 0},
    "forecast": {"devices": []},
    "data": {"source": "standin"},
    "workloads": {"matmul": {"batch_size": [32], "backend": ["jax"]}},
}
LEARNING = {"mnist_official": {"batch_size": [64], "backend": ["jax"], "fraction": [0.02]}}
RUN, SUPERVISOR, SNAKEMAKE = "whichdevice.measuring.process", "scripts/measure.py", "snakemake"
WAIT = 1800  # seconds; another measurement on this host may have to end first


@dataclass
class Trial:
    """A copy of the project with one study, its records watched."""

    folder: Path
    study: str
    config: dict
    losses: list[str] = field(default_factory=list)
    interrupted: int = 0  # calls that were stopped, or stopped themselves

    def __post_init__(self) -> None:
        self.watch = RecordWatch(self.results)

    @property
    def results(self) -> Path:
        """The study's folder."""
        return self.folder / "results" / self.study

    def start(self, *arguments: str, prefix: tuple[str, ...] = (), study: str | None = None) -> subprocess.Popen[str]:
        """Snakemake in a session of its own."""
        name = study or self.study
        config = self.folder / f"{name}.yaml"
        config.write_text(yaml.safe_dump({"study": name, **self.config}), encoding="utf-8")
        command = [*prefix, sys.executable, "-m", "snakemake", "--cores", "1", *(arguments or ("all",))]
        return subprocess.Popen(
            [*command, "--configfile", config.name],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def call(self, *arguments: str, prefix: tuple[str, ...] = ()) -> tuple[int, str]:
        """Exit status of a whole call and what it said."""
        process = self.start(*arguments, prefix=prefix)
        said, _ = process.communicate(timeout=WAIT)
        self.interrupted += process.returncode != 0
        return process.returncode, said

    def check(self, told: str = "", statuses: set[str] | None = None) -> str:
        """Call the study again and note every loss of what was ever there; what the call said."""
        code, said = self.call()
        self.expect(code == 0, f"`snakemake all` ended with {code}: {said[-2000:]}")
        for loss in self.watch.lost(self.interrupted):
            self.expect(False, loss)
        left = [path for path in self.results.glob("runs/**/.record.json.*") if path.is_file()]
        self.expect(not left, f"half-written: {left}")
        if code == 0:
            runs = pd.read_csv(self.results / "tables/runs.csv")
            wrong = runs[~runs["status"].isin(statuses or {"ok"})]
            self.expect(wrong.empty, f"statuses: {wrong[['run', 'status', 'reason']].to_dict('records')}")
            self.expect(told in (self.results / "report.html").read_text(encoding="utf-8"), f"report hides {told!r}")
        return said

    def finish(self) -> None:
        """Measure what is still missing, and note every loss of what was ever there; without tables and report."""
        code, said = self.call("runs")
        self.expect(code == 0, f"`snakemake runs` ended with {code}: {said[-2000:]}")
        for loss in self.watch.lost(self.interrupted):
            self.expect(False, loss)
        statuses = {read_record(path).status for path in self.results.glob("runs/**/record.json")}
        self.expect(statuses == {"ok"}, f"statuses: {statuses}")
        left = [path for path in self.results.glob("runs/**/.record.json.*") if path.is_file()]
        self.expect(not left, f"half-written: {left}")
        code, said = self.call("runs", "-n")
        self.expect("Nothing to be done" in said, f"something is left to do: {said[-500:]}")

    def expect(self, holds: bool, loss: str) -> None:
        """Note a loss unless something holds."""
        if not holds:
            self.losses.append(f"{self.study}: {loss}")

    def processes(self, what: str = "") -> list[psutil.Process]:
        """Processes in this copy whose command line holds `what`."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                inside = str(self.folder) in " ".join([process.cwd(), *words])
                if inside and (what in words if what == SNAKEMAKE else any(what in part for part in words)):
                    found.append(process)
        return found

    def kill(self, what: str) -> int:
        """Kill for good whatever runs here under that name; how many."""
        found = self.processes(what)
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        return len(found)
