"""Many short runs in one call: memory of the parent processes, and what they leave behind.

python benchmarks/soak.py [--runs 300]

Prints Snakemake's resident memory after each tenth of the runs, and every process, temporary file and shared-memory
segment that is there afterwards and was not before. Exits 1 where something is left or memory grew by a tenth.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import yaml

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from faults.campaign import STUDY  # noqa: E402
from workflow.conftest import copy_project  # noqa: E402

SHARED_MEMORY = Path("/dev/shm")
GROWTH = 1.1  # of the memory after the first tenth of the runs: Snakemake itself keeps a little of every job


def segments() -> set[str]:
    """Shared-memory segments of this host, none where it shows none."""
    return {path.name for path in SHARED_MEMORY.iterdir()} if SHARED_MEMORY.is_dir() else set()


def inside(folder: Path) -> list[str]:
    """Processes that work in this folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(folder):
                found.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):
            continue
    return found


def watched(process: subprocess.Popen[bytes], runs: Path, number: int) -> list[tuple[int, int]]:
    """How many records there were and the parent's memory in bytes, at each tenth of the runs."""
    parent, seen = psutil.Process(process.pid), []
    while process.poll() is None:
        done = len(list(runs.glob("**/record.json")))
        try:
            memory = parent.memory_info().rss
        except psutil.Error:
            break
        if done and done // max(1, number // 10) > len(seen):
            seen.append((done, memory))
            print(f"{done} runs: {memory / 1e6:.0f} MB", flush=True)
        time.sleep(0.2)
    return seen


def soak(number: int, folder: Path) -> list[str]:
    """So many runs in a copy of the project below `folder`; what is wrong afterwards."""
    project, temporary, shared = copy_project(folder / "project").folder, folder / "tmp", segments()
    temporary.mkdir()
    study = {**STUDY, "study": "soak", "measure": {**STUDY["measure"], "seconds": 0.05, "repeats": number}}
    (project / "soak.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "runs", "--configfile", "soak.yaml", "--quiet"]
    log = (folder / "log").open("wb")
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(command, cwd=project, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
    seen = watched(process, project / "results/soak/runs", number)
    faults = [] if process.wait() == 0 else [f"snakemake ended with {process.returncode}: see {folder / 'log'}"]
    records = len(list((project / "results/soak/runs").glob("**/record.json")))
    faults += [f"{number - records} records are missing"] if records != number else []
    faults += [f"still running: {line}" for line in inside(folder)]
    faults += [f"temporary file: {path.name}" for path in temporary.rglob("*")]
    faults += [f"shared memory: {name}" for name in segments() - shared]
    if len(seen) > 1 and seen[-1][1] > GROWTH * seen[0][1]:
        faults.append(f"memory grew from {seen[0][1] / 1e6:.0f} to {seen[-1][1] / 1e6:.0f} MB")
    return faults


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
