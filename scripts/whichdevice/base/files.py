"""Find the package's own files, replace a file as a whole, and compute its checksum."""

import csv
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

VARIABLE = "PYTHONPATH"
HERE = Path(__file__).parents[1]
INSTALLED = HERE / "workflow"  # Snakefile, rules, scripts, profiles, config and examples in a wheel: hatch_build.py
WORKFLOW = INSTALLED if INSTALLED.is_dir() else HERE.parents[1]
CONFIG = WORKFLOW / "config"

# glibc returns an array of 4 MB or more when it is freed. Otherwise it raises that bound step by step, and small arrays
# between large ones keep them all: an evaluation by fake tensors took 15 GB. For processes that are not timed.
RETURNED = {"MALLOC_MMAP_THRESHOLD_": str(2**22)}


def package_first() -> dict[str, str]:
    """Return PYTHONPATH with the folder of this package in front of what the variable holds.

    Processes of ours import this very package: their environment may have been made in another checkout.
    """
    return {VARIABLE: os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get(VARIABLE)]))}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a file beside `path`, to be written, and rename it to `path`; the folder is made.

    An error in the block leaves the file at `path` as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield aside
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def can_be_written(folder: Path) -> bool:
    """Return whether a folder can be written, or made where it is missing."""
    known = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    return known.is_dir() and os.access(known, os.W_OK)


def write_atomically(text: str, path: Path) -> None:
    """Replace a file by this text as a whole, safe against a crash of the machine."""
    with replacing(path) as aside, aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def write_changed(text: str, path: Path) -> None:
    """Write a file as `write_atomically` does; one that already says the same stays untouched, with its time."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_atomically(text, path)


def text_of(path: Path) -> str:
    """Return the text of a small file of the system without white space around it; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


@cache
def json_of(path: Path) -> dict[str, Any]:
    """Return what one of the package's own JSON files holds."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def csv_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of one of the package's own CSV files."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal digits; raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
