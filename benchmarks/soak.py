"""Many short runs in one call: memory of the parent processes, and what they leave behind.

python benchmarks/soak.py [--runs 300]

Prints the resident memory of Snakemake and of the supervisor, and the files that Snakemake has open, after each tenth
of the runs; then every process, temporary file, shared-memory segment and half-written result that is there afterwards
and was not before. Exits 1 where something is left, a supervisor's memory or the open files grew, or Snakemake's memory
grew by more than PER_RUN a run: it keeps what it knows of every job to the end.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from faults.trial import STUDY, SUPERVISOR  # noqa: E402
from workflow.conftest import copy_project  # noqa: E402

SHARED_MEMORY = Path("/dev/shm")
SYSTEM_V = Path("/proc/sysvipc")
# Bytes. A Snakefile of 300 jobs that do nothing keeps 16 kB of each; a run has its whole request in `params` as well.
PER_RUN = 40e3
SUPERVISOR_GROWTH = 1.02  # of its largest memory in the first tenth: each is a new process, and pages differ a little


@dataclass(frozen=True)
class Sample:
    """What the parents held when so many records were there; memory in bytes."""

    records: int
    snakemake: int
    supervisor: int  # the largest seen since the sample before
    files: int


def segments() -> set[str]:
    """Shared memory and semaphores of this host, none where it shows none."""
    names = {path.name for path in SHARED_MEMORY.iterdir()} if SHARED_MEMORY.is_dir() else set()
    for path in sorted(SYSTEM_V.glob("*")):
        names |= {f"{path.name} {line.split()[1]}" for line in path.read_text().splitlines()[1:]}
    return names


def inside(folder: Path) -> list[str]:
    """Processes that work in this folder, or name it; dead ones that nobody waited for as well."""
    lines = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if str(folder) in line or Path(process.cwd()).is_relative_to(folder):
                lines.append(line)
        except (psutil.Error, OSError):
            continue
    return lines


def watched(process: subprocess.Popen[bytes], runs: Path, number: int) -> list[Sample]:
    """A sample at each tenth of the runs."""
    parent, samples, largest = psutil.Process(process.pid), [], 0
    while process.poll() is None:
        try:
            for child in parent.children(recursive=True):
                if any(SUPERVISOR in part for part in child.cmdline()):
                    largest = max(largest, child.memory_info().rss)
        except psutil.Error:
            continue  # ended just now
        done = len(list(runs.glob("**/record.json")))
        if done // max(1, number // 10) > len(samples):
            try:
                sample = Sample(done, parent.memory_info().rss, largest, parent.num_fds())
            except psutil.Error:
                break
            samples.append(sample)
            largest = 0
            print(
                f"{done} runs: Snakemake {sample.snakemake / 1e6:.1f} MB and {sample.files} open files, "
                f"supervisor {sample.supervisor / 1e6:.1f} MB",
                flush=True,
            )
        time.sleep(0.1)
    return samples


def growth(samples: list[Sample]) -> list[str]:
    """What grew from the first sample to the last."""
    if len(samples) < 2:
        return []
    first, last = samples[0], samples[-1]
    per_run = (last.snakemake - first.snakemake) / (last.records - first.records)
    print(f"Snakemake kept {per_run / 1e3:.1f} kB of each run")
    faults = [f"Snakemake's memory grew by {per_run / 1e3:.0f} kB a run"] if per_run > PER_RUN else []
    if last.supervisor > SUPERVISOR_GROWTH * first.supervisor:
        faults.append(f"the supervisor's memory grew from {first.supervisor} to {last.supervisor} bytes")
    if last.files > first.files:
        faults.append(f"open files grew from {first.files} to {last.files}")
    return faults


def left_in(results: Path) -> list[str]:
    """What lies in the runs' folders and is no record, log or artefact of one."""
    left = [path for path in results.glob("runs/**/*") if path.name.startswith(".") or path.name.endswith(".tmp")]
    for folder in results.glob("runs/*/*/*/r*"):
        left += [path for path in folder.iterdir() if path.is_dir()]  # these runs have no artefacts
    return [f"left in the results: {path.relative_to(results)}" for path in left]


def soak(number: int, folder: Path) -> list[str]:
    """Return what is wrong after `number` runs in a copy of the project below `folder`."""
    project, temporary, shared = copy_project(folder / "project").folder, folder / "tmp", segments()
    temporary.mkdir()
    study = {**STUDY, "study": "soak", "measure": {**STUDY["measure"], "seconds": 0.05, "repeats": number}}
    (project / "soak.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "runs", "--configfile", "soak.yaml", "--quiet"]
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=project, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
        )
        samples = watched(process, project / "results/soak/runs", number)
        faults = [] if process.wait() == 0 else [f"snakemake ended with {process.returncode}"]
    if faults:
        print((folder / "log").read_text(errors="replace")[-2000:])
    records = len(list((project / "results/soak/runs").glob("**/record.json")))
    faults += [f"{number - records} records are missing"] if records != number else []
    faults += [f"still running: {line}" for line in inside(folder)]
    faults += [f"temporary file: {path.name}" for path in temporary.rglob("*")]
    faults += [f"shared memory: {name}" for name in sorted(segments() - shared)]
    return faults + left_in(project / "results/soak") + growth(samples)


def main() -> int:
    """Print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        faults = soak(asked.runs, Path(folder))
    print("\n".join(faults) or f"{asked.runs} runs, nothing left behind")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
