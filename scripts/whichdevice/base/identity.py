"""Names that tell this machine and its packages from others: no host name, user name or path."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from whichdevice.base.files import text_of

FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
IDENTITY_DIGITS = 12


def machine_identity(files: tuple[Path, ...] = FILES) -> str | None:
    """Hexadecimal digits from the system's machine id, which cannot be had back; None where it has none.

    systemd asks that the id itself be kept secret and hashed by those who pass it on (machine-id(5)).
    """
    for path in files:
        identity = text_of(path)
        if identity and identity != "uninitialized":
            return hashlib.sha256(f"whichdevice {identity}".encode()).hexdigest()[:IDENTITY_DIGITS]
    return None


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of these distributions, as far as they are installed here."""
    return {name: found for name in names if (found := _version(name)) is not None}


@cache
def _version(name: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(name)
    return None
