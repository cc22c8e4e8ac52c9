"""A small file system that fills up."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from needs import require

WORDS = ("No space left", "no room left", "no room on disk")
SIZE = 2**27


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of SIZE bytes at this folder; skips where it cannot be mounted."""
    require("mounts")
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder]
    subprocess.run(command, capture_output=True, check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path, bytes_left: int) -> None:
    """Take all room but so much."""
    (folder / "ballast").unlink(missing_ok=True)
    done = subprocess.run(["df", "--output=avail", "-B1", folder], capture_output=True, text=True, check=True)
    with (folder / "ballast").open("wb") as file:
        for _ in range((int(done.stdout.split()[1]) - bytes_left) // 4096):
            file.write(b"0" * 4096)
