"""Files that are whole or absent."""

import hashlib
import os
from pathlib import Path


def write_atomically(text: str, path: Path) -> None:
    """Write a file aside and rename it; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal digits; raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
