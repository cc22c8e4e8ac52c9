"""What stands for `sky` and for `rsync` in the tests of `rent`: machines that exist in a folder, and faults on demand.

FAKE_SKY is the folder: `calls` gets a line for each call, `machine` holds a machine's home folder while it is up,
`records` what the study leaves there, `faults.json` what goes wrong. As with the real one, a launch is a request that
outlives its client, `down` exits 0 whether or not it worked, and a launch that fails leaves half a machine.
"""

import json
import os
import shutil
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
        return rsync(*arguments[-2:])
    if words.startswith("launch"):
        return launch(arguments[arguments.index("-c") + 1])
    if words.startswith("down"):
        down(arguments[-1])
    elif words.startswith("status"):
        if QUEUED.exists():  # the server goes on with the launch, whatever became of the client
            up(QUEUED.read_text())
        print("Listing ...")
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
    """Wait for a signal, or to be released, in the stage where the test wants one."""
    if happens(f"hang in {stage}"):
        (FOLDER / "hanging").touch()
        for _ in range(1000):
            if not (FOLDER / "released").exists():
                time.sleep(0.02)


def up(name: str) -> None:
    """Make the machine."""
    QUEUED.unlink(missing_ok=True)
    shutil.copytree(FOLDER / "records", MACHINE / "sky_workdir/results/small")
    (MACHINE / "name").write_text(name)


def launch(name: str) -> int:
    """Queue the launch, make the machine, and follow the study to its end."""
    QUEUED.write_text(name)
    hangs("launch")
    up(name)
    if happens("launch fails"):
        return 1
    print("measuring ...", flush=True)
    hangs("run")
    return 100 if happens("run fails") else 0


def down(name: str) -> None:
    """Take the machine down, and say nothing of a failure by the exit status."""
    hangs("down")
    if MACHINE.exists() and (MACHINE / "name").read_text() == name and not happens("down fails"):
        shutil.rmtree(MACHINE)


def rsync(source: str, target: str) -> int:
    """Copy from the machine's home folder."""
    hangs("rsync")
    if happens("rsync fails") or not MACHINE.exists():
        return 12
    shutil.copytree(MACHINE / source.partition(":")[2], target, dirs_exist_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
