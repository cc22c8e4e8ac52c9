"""Plant faults in a small study, call it again, and count what was lost.

python tests/faults/campaign.py [--kills 50] [--seed 1]    prints "N faults, 0 lost"

A loss is a finished record that changed, a half-written file that stayed or was read, a study that did not finish by
a plain `snakemake all`, or a fault that the report does not tell.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import psutil
import yaml

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from workflow.conftest import copy_project  # noqa: E402

from whichdevice.errors import StudyError  # noqa: E402
from whichdevice.records.store import read_record  # noqa: E402

STUDY = {
    "devices": {"cpu": {"kind": "cpu"}},
    "measure": {"seconds": 0.2, "min_steps": 1, "repeats": 3, "timeout": 60, "retry_disturbed": False},
    "train": {"epochs": 0},
    "compile": {"topologies": []},
    "data": {"source": "standin"},
    "workloads": {"matmul": {"batch_size": [32], "backend": ["jax"]}},
}
LEARNING = {"mnist_official": {"batch_size": [64], "backend": ["jax"], "fraction": [0.02]}}
RUN, SUPERVISOR = "whichdevice.measuring.process", "scripts/measure.py"


@dataclass
class Trial:
    """A copy of the project with one study."""

    folder: Path
    study: str
    config: dict
    losses: list[str] = field(default_factory=list)

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
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def call(self, *arguments: str, prefix: tuple[str, ...] = ()) -> tuple[int, str]:
        """Exit status of a whole call and what it said."""
        process = self.start(*arguments, prefix=prefix)
        said, _ = process.communicate(timeout=1200)
        return process.returncode, said

    def records(self) -> dict[str, bytes]:
        """The records that lie there whole."""
        found = {}
        for path in sorted(self.results.glob("runs/**/record.json")):
            with contextlib.suppress(StudyError):
                read_record(path)
                found[str(path.relative_to(self.results))] = path.read_bytes()
        return found

    def check(self, before: dict[str, bytes], told: str = "", statuses: set[str] | None = None) -> str:
        """Call the study again and note every loss against the records `before`; what the call said."""
        code, said = self.call()
        after = self.records()
        self.expect(code == 0, f"`snakemake all` ended with {code}: {said[-2000:]}")
        for name, content in before.items():
            self.expect(after.get(name) == content, f"{name} changed")
        aside = [path for path in self.results.glob("runs/**/.record.json.*") if path.is_file()]
        self.expect(not aside, f"half-written: {aside}")
        if code == 0:
            runs = pd.read_csv(self.results / "tables/runs.csv")
            wrong = set(runs["status"]) - (statuses or {"ok"})
            self.expect(not wrong, f"statuses {wrong}")
            self.expect(told in (self.results / "report.html").read_text(encoding="utf-8"), f"report hides {told!r}")
        return said

    def expect(self, holds: bool, loss: str) -> None:
        """Note a loss unless something holds."""
        if not holds:
            self.losses.append(f"{self.study}: {loss}")

    def processes(self, what: str = "") -> list[psutil.Process]:
        """Processes in this copy whose command line holds `what`."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                inside = str(self.folder) in " ".join([process.cwd(), *process.cmdline()])
                if inside and any(what in part for part in process.cmdline()):
                    found.append(process)
        return found

    def kill(self, what: str) -> int:
        """Kill for good whatever runs here under that name; how many."""
        found = self.processes(what)
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        return len(found)


def kill_at(trial: Trial, seconds: float, what: str) -> None:
    """Kill Snakemake, the supervisor or the measured process (or all) at a moment; then check."""
    process = trial.start()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    if what == "snakemake":
        process.kill()
    elif what == "everything":
        trial.kill("")
        process.kill()
    else:
        trial.kill(what)
    process.communicate(timeout=1200)
    deadline = time.monotonic() + 20
    while trial.processes(RUN) and time.monotonic() < deadline:
        time.sleep(0.05)
    trial.expect(not trial.processes(RUN), "a measured process outlived the study")
    before = trial.records()
    killed = [name for name in before if read_record(trial.results / name).status != "ok"]
    trial.check(before, "killed by the system" if killed else "", {"ok", "out_of_memory"} if killed else None)


def kills(folder: Path, number: int, seed: int, duration: float, say: Callable[[str], None]) -> list[str]:
    """Kill at so many random moments of a study of that duration in seconds; the losses."""
    draw = random.Random(seed)
    losses: list[str] = []
    for turn in range(number):
        what = ("snakemake", RUN, SUPERVISOR, "everything")[turn % 4]
        trial = Trial(folder, f"kill{turn}", STUDY)
        moment = draw.uniform(0.5, duration)
        kill_at(trial, moment, what)
        say(f"kill {turn + 1}: {what} after {moment:.1f} s: {'; '.join(trial.losses) or 'nothing lost'}")
        losses += trial.losses
        shutil.rmtree(trial.results)
    return losses


def main() -> int:
    """The long campaign: every planted fault once, then the kills."""
    from faults.planted import FAULTS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = copy_project(Path(scratch) / "a study").folder
        first = Trial(folder, "first", STUDY)
        began = time.monotonic()
        first.check({})
        duration = time.monotonic() - began
        losses, number = list(first.losses), asked.kills
        for name, plant in FAULTS.items():
            trial = Trial(folder, name, STUDY)
            if (skipped := plant(trial)) is not None:
                print(f"{name}: not planted: {skipped}")
                continue
            print(f"{name}: {'; '.join(trial.losses) or 'nothing lost'}", flush=True)
            number, losses = number + 1, losses + trial.losses
        losses += kills(folder, asked.kills, asked.seed, duration, lambda line: print(line, flush=True))
    print("\n".join(losses))
    print(f"{number} faults, {len(losses)} lost")
    return bool(losses)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
