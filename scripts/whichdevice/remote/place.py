"""A bucket, a folder or any other address that fsspec knows, and every failure to reach it as one line."""

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from whichdevice.errors import StudyError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

# Here an object appears under its final name only when its last byte has been confirmed.
ATOMIC = {"gs", "gcs", "s3", "s3a", "abfs", "az", "adl", "oss"}
GOOGLE = {"gs", "gcs"}
LOGIN = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
ROLE = "ask the bucket's owner for the role Storage Object User (roles/storage.objectUser)"
ABSENT = "no such bucket or object; make it: gcloud storage buckets create gs://NAME, or correct the address"
ANSWERS = {  # of Google's servers
    401: f"the credentials are missing, wrong or expired (HTTP 401); {LOGIN}",
    403: f"no permission for this account (HTTP 403); {ROLE}",
    404: f"{ABSENT} (HTTP 404)",
}
KEPT = "nothing is lost; run again to continue"
NETWORK = {"aiohttp", "requests", "urllib3"}  # libraries whose errors are broken connections


@dataclass(frozen=True)
class Place:
    """A folder-like prefix of a file system. `address` is what a person reads, without a slash at its end."""

    fs: "AbstractFileSystem"
    root: str
    address: str

    @property
    def protocol(self) -> str:
        """The scheme, e.g. `gs`; `file` for a folder."""
        return self.fs.protocol if isinstance(self.fs.protocol, str) else self.fs.protocol[0]

    def path(self, name: str) -> str:
        """The file system's own path of an object below this place."""
        return f"{self.root}/{name}" if self.root else name

    def below(self, name: str) -> "Place":
        """The place `name` below this one."""
        return Place(self.fs, self.path(name), f"{self.address}/{name}")

    def read(self, name: str) -> bytes:
        """Content of an object; raises StudyError."""
        with explained(f"{self.address}/{name}"):
            return bytes(self.fs.cat_file(self.path(name)))

    def listing(self) -> dict[str, dict[str, Any]]:
        """Facts (size, checksum) of every object by its name below this place; nothing where it does not exist.

        Links and names that lead out of the place are left out. Raises StudyError where the place cannot be read.
        """
        with explained(self.address):
            self.fs.invalidate_cache()
            try:
                found = self.fs.find(self.root, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                found = {}
            if not found and self.protocol in GOOGLE:  # of a bucket that does not exist, some servers list nothing
                bucket = self.root.strip("/").partition("/")[0]
                self.fs.call("GET", "b/{}/o", bucket, json_out=True, maxResults=1, prefix="-/-")
        within = len(self.root) + 1 if self.root else 0
        return {
            path[within:]: facts
            for path, facts in found.items()
            if facts["type"] == "file" and not facts.get("islink") and _is_safe(path[within:])
        }


def open_place(address: str | Path) -> Place:
    """The place of an address; raises StudyError where its scheme is unknown or credentials are missing."""
    text = str(address).strip().rstrip("/")
    if not text or text.endswith(":"):
        raise StudyError(f"{str(address)!r} is no address; use gs://name/prefix, or a folder")
    scheme, separator, rest = text.partition("://")
    if separator and scheme in GOOGLE:
        if not rest.strip("/"):
            raise StudyError(f"{text} names no bucket; use gs://name/prefix")
        return Place(_google(text), rest, text)
    import fsspec

    if not separator and text.endswith(".zip"):
        with explained(text):
            return Place(fsspec.filesystem("zip", fo=str(Path(text).expanduser())), "", text)
    try:
        fs, root = fsspec.core.url_to_fs(text if separator else str(Path(text).expanduser()))
    except (ValueError, ImportError) as error:
        raise StudyError(f"{text}: {scheme}:// is not known here ({' '.join(str(error).split())})") from None
    return Place(fs, root.rstrip("/"), text)


def _google(address: str) -> Any:
    """Google's file system with the login of this machine, or none where it has none (public buckets, an emulator)."""
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # asks the control service first: slow
    os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "1")  # off Google's machines: a second, not nine
    os.environ.setdefault("GCE_METADATA_TIMEOUT", "1")
    from gcsfs import GCSFileSystem
    from google.auth.exceptions import DefaultCredentialsError

    for name in ("gcsfs", "gcsfs.credentials"):  # failures come as one line of ours
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with explained(address):
        try:
            if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS") or not os.environ.get("STORAGE_EMULATOR_HOST"):
                return GCSFileSystem(token="google_default", use_listings_cache=False)  # nosec B106  # no secret
        except DefaultCredentialsError:
            if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
                raise
        return GCSFileSystem(token="anon", use_listings_cache=False)  # nosec B106  # no secret


def _is_safe(name: str) -> bool:
    """Whether an object's name stays below the folder that it is written to."""
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and "\\" not in name and name.isprintable()


@contextmanager
def explained(address: str) -> Iterator[None]:
    """Turn every failure to reach `address` into a StudyError; faults of the program stay what they are."""
    try:
        yield
    except StudyError:
        raise
    except Exception as error:
        if (line := explanation(error)) is None:
            raise
        raise StudyError(f"{address}: {line}") from None


def explanation(error: Exception) -> str | None:
    """What failed and what to do; None for a fault of the program. A server's own words may name accounts."""
    module, name, code = type(error).__module__, type(error).__name__, str(getattr(error, "code", ""))
    if module.startswith("google.auth"):
        refused = "Google refuses these credentials (expired, withdrawn or of another project)"
        return f"{refused if name == 'RefreshError' else 'no usable Google credentials on this machine'}; {LOGIN}"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return ABSENT
    if name == "HttpError":
        return ANSWERS.get(int(code) if code.isdigit() else 0, f"the server answered HTTP {code or 'error'}; {KEPT}")
    if isinstance(error, PermissionError) or (isinstance(error, OSError) and str(error).startswith("Forbidden")):
        return f"no permission for this account; {ROLE}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no room left on the disk ({error.filename or 'target'}): free some space and run again"
    if name in ("ChecksumError", "BadZipFile"):
        return "arrived damaged and was not kept; run again" if name == "ChecksumError" else "is no readable zip file"
    if module.partition(".")[0] in NETWORK or isinstance(error, ConnectionError | TimeoutError):
        return f"cannot be reached or the connection broke ({name}); check the network; {KEPT}"
    return (error.strerror or name) if isinstance(error, OSError) and error.errno is not None else None
