"""What stands for `sky` and for `rsync` in the tests of `rent`: machines that exist in a folder, and faults on demand.

FAKE_SKY is the folder: `calls` gets a line for each call, `machine` holds a machine's home folder while it is up,
`records` what the study leaves there, `faults.json` what goes wrong. REAL_RSYNC is the program that copies. As with the
real one, a launch is a request that outlives its client, `down` exits 0 whether or not it worked, and a launch that
fails leaves half a machine.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ["FAKE_SKY"])
FAULTS = json.loads((FOLDER / "faults.json").read_text())
MACHINE, QUEUED = FOLDER / "machine", FOLDER / "queued"


def main(name: str, *arguments: str) -> int:
    """Act as one call of `sky` or `rsync`; the exit status."""
    words = " ".join(arguments)
    with (FOLDER / "calls").open("a") as calls:
        calls.write(f"{name} {words}\n")
    if name == "rsync":
        return rsync(arguments)
    if words.startswith("gpus list"):
        print(f"Listing ...\n{json.dumps(FAULTS.get('prices', {'L4': [{'price': 0.7, 'spot_price': 0.3}]}))}")
    elif words.startswith("launch"):
        return launch(arguments[arguments.index("-c") + 1], Path(arguments[-1]))
    elif words.startswith("logs"):
        return logs("--status" in arguments)
    elif words.startswith("down"):
        down(arguments[-1])
    elif words.startswith("status"):
        if QUEUED.exists():  # the server goes on with the launch, whatever became of the client
            up(QUEUED.read_text())
        print(json.dumps([{"name": (MACHINE / "name").read_text()}] if MACHINE.exists() else []))
        return int(happens("status fails"))
    elif words.startswith("api status"):
        print(json.dumps([{"name": "sky.launch", "request_id": "r1"}] if QUEUED.exists() else []))
    elif words.startswith("api cancel"):
        QUEUED.unlink()
    return 0


def happens(fault: str) -> bool:
    """Whether a fault is to happen now; a number is how often."""
    count = FOLDER / fault.replace(" ", "_")
    before = len(count.read_text()) if count.exists() else 0
    count.write_text("x" * (before + 1))
    return before < int(FAULTS.get(fault, 0))


def hangs(stage: str) -> None:
    """Wait for a signal in the stage where the test wants one."""
    if happens(f"hang in {stage}"):
        (FOLDER / "hanging").touch()
        time.sleep(20)


def up(name: str) -> None:
    """Make the machine."""
    QUEUED.unlink(missing_ok=True)
    shutil.copytree(FOLDER / "records", MACHINE / "sky_workdir/results/small")
    (MACHINE / "name").write_text(name)


def launch(name: str, task: Path) -> int:
    """Queue the launch, then make the machine."""
    shutil.copy(task, FOLDER / "task.yaml")
    QUEUED.write_text(name)
    hangs("launch")
    up(name)
    print("a machine is up")
    return int(happens("launch fails"))


def logs(status: bool) -> int:
    """Follow the log, or say how the study ended."""
    if not status:
        print("measuring ...", flush=True)
        hangs("run")
        return 1 if happens("connection lost") else 0
    if int(FAULTS.get("connection lost", 0)) >= len((FOLDER / "connection_lost").read_text()):
        return 1
    return 100 if happens("run fails") else 0


def down(name: str) -> None:
    """Take the machine down, and say nothing of a failure by the exit status."""
    hangs("down")
    if MACHINE.exists() and (MACHINE / "name").read_text() == name and not happens("down fails"):
        shutil.rmtree(MACHINE)


def rsync(arguments: tuple[str, ...]) -> int:
    """Copy from the machine's home folder."""
    hangs("rsync")
    if happens("rsync fails"):
        print("connection refused")
        return 12
    *options, source, target = arguments
    options = [option for option in options if option != "-e" and not option.startswith("ssh ")]
    real = os.environ.get("REAL_RSYNC")  # never by its name: the first on PATH is this very file
    if not real:
        print("rsync is not installed")
        return 127
    return subprocess.run([real, *options, f"{MACHINE}/{source.partition(':')[2]}", target]).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
