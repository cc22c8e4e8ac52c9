"""A place for datasets and results: a bucket, a folder or any other address that fsspec knows."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from whichdevice.errors import StudyError
from whichdevice.storage.failures import explained

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

# Here an object appears whole, under its final name, when its last byte has been confirmed.
ATOMIC = {"gs", "gcs", "s3", "s3a", "abfs", "az", "adl", "oss"}
GOOGLE = {"gs", "gcs"}


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

    @property
    def is_atomic(self) -> bool:
        """Whether an object appears under its name only when it is whole."""
        return self.protocol in ATOMIC

    @property
    def bucket(self) -> str:
        """First part of the address after the scheme."""
        return self.root.strip("/").partition("/")[0]

    def path(self, name: str) -> str:
        """The file system's own path of an object below this place."""
        return f"{self.root}/{name}" if self.root else name

    def told(self, name: str) -> str:
        """An object's address, for a message."""
        return f"{self.address}/{name}"

    def below(self, name: str) -> "Place":
        """The place `name` below this one."""
        return Place(self.fs, self.path(name), self.told(name))

    def listing(self, name: str = "") -> dict[str, dict[str, Any]]:
        """Every object below `name`, by its name below this place; nothing where there is none.

        Raises StudyError where the place cannot be reached or read.
        """
        start = self.path(name) if name else self.root
        with explained(self.address):
            self.fs.invalidate_cache()
            try:
                found = self.fs.find(start, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                require_bucket(self)
                return {}
            if not found and self.protocol in GOOGLE:
                require_bucket(self)  # of a bucket that is not there, some servers list nothing
        within = len(self.root) + 1 if self.root else 0
        return {
            path[within:]: facts
            for path, facts in found.items()
            if facts["type"] == "file" and not facts.get("islink") and path != self.root
        }


def open_place(address: str) -> Place:
    """The place of an address; raises StudyError where its scheme is unknown or there are no credentials."""
    text = address.strip().rstrip("/")
    if not text or text.endswith(":"):
        raise StudyError(f"{address!r} is no address; use gs://name/prefix, or a folder")
    scheme = text.partition("://")[0] if "://" in text else "file"
    if scheme in GOOGLE:
        return Place(_google(text), text.partition("://")[2], text)
    import fsspec

    if scheme == "file" and text.endswith(".zip"):
        with explained(text):
            return Place(fsspec.filesystem("zip", fo=str(Path(text).expanduser())), "", text)
    try:
        fs, root = fsspec.core.url_to_fs(str(Path(text).expanduser()) if "://" not in text else text)
    except (ValueError, ImportError) as error:
        raise StudyError(f"{text}: {scheme}:// is not known here ({' '.join(str(error).split())})") from None
    return Place(fs, root.rstrip("/"), text)


def require_bucket(place: Place) -> None:
    """Raise FileNotFoundError where a Google bucket is not there; other places are made when written to."""
    if place.protocol in GOOGLE:
        place.fs.call("GET", "b/{}/o", place.bucket, json_out=True, maxResults=1, prefix="-/-")


def _google(address: str) -> Any:
    """Google's file system with the login of this machine, or none where there is none (public buckets)."""
    if not address.partition("://")[2].strip("/"):
        raise StudyError(f"{address} names no bucket; use gs://name/prefix")
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # asks the control service first: slow
    os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "1")  # off Google's machines: a second, not nine
    os.environ.setdefault("GCE_METADATA_TIMEOUT", "1")
    from gcsfs import GCSFileSystem
    from google.auth.exceptions import DefaultCredentialsError

    for name in ("gcsfs", "gcsfs.credentials"):  # failures come as one line of ours
        logging.getLogger(name).setLevel(logging.CRITICAL)
    keys = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    with explained(address):
        if os.environ.get("STORAGE_EMULATOR_HOST") and not keys:
            return GCSFileSystem(token="anon", use_listings_cache=False)  # nosec B106  # no secret
        try:
            return GCSFileSystem(token="google_default", use_listings_cache=False)  # nosec B106  # no secret
        except DefaultCredentialsError:
            if keys:
                raise
            return GCSFileSystem(token="anon", use_listings_cache=False)  # nosec B106  # reads public buckets; to others 401


def safe_name(name: str) -> bool:
    """Whether an object's name stays below the folder that it is written to."""
    parts = PurePosixPath(name).parts
    return bool(parts) and not name.startswith("/") and ".." not in parts and "\\" not in name and name.isprintable()
