"""A small file system that fills up: under a study's folder, or under the datasets."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.trial import LEARNING, STUDY, Trial

WORDS = ("No space left", "no room left", "no room on disk")
SIZE = 2**27
# Bytes left, from nothing at all to what holds the records and not the figures.
ROOM = (0, 2**14, 2**17, 2**20, 2**22)


def full_below(trial: Trial, folder: Path, room: tuple[int, ...]) -> str | None:
    """Each call with so much room on the disk of `folder` ends in one line or whole; with enough the last is whole."""
    with small_disk(folder) as mounted:
        if not mounted:
            return "mounting a small file system needs root"
        for bytes_left in room:
            fill(folder, bytes_left)
            code, said = trial.call()
            told = code == 0 or any(words in said for words in WORDS)
            trial.expect(told, f"{bytes_left} bytes of room: unseen: {said[-1500:]}")
            trial.expect("whichdevice/" not in said, f"{bytes_left} bytes of room: code is shown: {said[-1500:]}")
        (folder / "ballast").unlink()
        trial.check()
    return None


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A file system of SIZE bytes there; whether it could be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], capture_output=True, check=False
    )
    if made.returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path, bytes_left: int) -> None:
    """Take all room but so much."""
    ballast = folder / "ballast"
    ballast.unlink(missing_ok=True)
    done = subprocess.run(["df", "--output=avail", "-B1", folder], capture_output=True, text=True, check=True)
    with ballast.open("wb") as file:
        for _ in range((int(done.stdout.split()[1]) - bytes_left) // 4096):
            file.write(b"0" * 4096)


def disk_full(trial: Trial) -> str | None:
    """No room for the study: records, artefacts, logs, tables, figures, report."""
    trial.config = {**STUDY, "workloads": {**STUDY["workloads"], **LEARNING}, "train": {"epochs": 1}}
    trial.config["measure"] = {**STUDY["measure"], "repeats": 1}
    return full_below(trial, trial.results, ROOM)


def disk_full_for_datasets(trial: Trial) -> str | None:
    """No room to prepare the data."""
    trial.config = {**STUDY, "workloads": LEARNING, "measure": {**STUDY["measure"], "repeats": 1}}
    return full_below(trial, trial.folder / "results/datasets", (0, 2**20, 2**24))
