"""Reach a bucket, a folder or any other address that fsspec knows, and transfer files to and from it.

Only what differs is sent, checksums are compared, and each file is whole under its final name or absent. Every failure
to reach a place is one line.
"""

import base64
import hashlib
import json
import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from whichdevice.base.errors import StudyError
from whichdevice.base.files import replacing

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


# Here an object appears under its final name only when its last byte has been confirmed.
ATOMIC = {"gs", "gcs", "s3", "s3a", "abfs", "az", "adl", "oss"}
GOOGLE = {"gs", "gcs"}
LOGIN = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
ROLE = "ask the bucket's owner for the role Storage Object User (roles/storage.objectUser)"
ABSENT = "no such bucket or object; make it: gcloud storage buckets create gs://NAME, or correct the address"
ANSWERS = {  # of Google's servers
    "401": f"the credentials are missing, wrong or expired (HTTP 401); {LOGIN}",
    "403": f"no permission for this account (HTTP 403); {ROLE}",
    "404": f"{ABSENT} (HTTP 404)",
}
NOTHING_LOST = "nothing is lost; run again to continue"
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
                objects = self.fs.find(self.root, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                objects = {}
            if not objects and self.protocol in GOOGLE:  # of a bucket that does not exist, some servers list nothing
                bucket = self.root.strip("/").partition("/")[0]
                self.fs.call("GET", "b/{}/o", bucket, json_out=True, maxResults=1, prefix="-/-")
        within = len(self.root) + 1 if self.root else 0
        return {
            path[within:]: facts
            for path, facts in objects.items()
            if facts["type"] == "file" and not facts.get("islink") and _is_safe(path[within:])
        }


def open_place(address: str | Path) -> Place:
    """The place of an address; raises StudyError where its scheme is unknown or credentials are missing."""
    text = str(address).strip().rstrip("/")
    if not text or text.endswith(":"):
        raise StudyError(f"{str(address)!r} is no address; use gs://name/prefix, or a folder")
    scheme, separator, path = text.partition("://")
    if separator and scheme in GOOGLE:
        if not path.strip("/"):
            raise StudyError(f"{text} names no bucket; use gs://name/prefix")
        return Place(_google(text), path, text)
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
    """Return what failed and what to do; None for a fault of the program. A server's own words may name accounts."""
    name, code = type(error).__name__, str(getattr(error, "code", ""))
    library = type(error).__module__.partition(".")[0]
    if type(error).__module__.startswith("google.auth"):
        return f"no usable Google credentials on this machine, or Google refuses them ({name}); {LOGIN}"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return ABSENT
    if name == "HttpError":
        return ANSWERS.get(code, f"the server answered HTTP {code or 'error'}; {NOTHING_LOST}")
    if isinstance(error, PermissionError) or (isinstance(error, OSError) and str(error).startswith("Forbidden")):
        return f"no permission for this account; {ROLE}"
    if name == "BadZipFile":
        return "is no readable zip file"
    if library in NETWORK or isinstance(error, ConnectionError | TimeoutError):
        return f"cannot be reached or the connection broke ({name}); check the network; {NOTHING_LOST}"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{error.strerror or name} ({error.filename or 'there'}); {NOTHING_LOST}"
    return None


AT_ONCE = 4
READ_BYTES = 2**20
ASIDE = ".unfinished"  # folder below a place for files that are not renamed yet
Listing = Mapping[str, Mapping[str, Any]]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Moved:
    """The result of a transfer."""

    files: int = 0
    nbytes: int = 0
    kept: int = 0  # the same on both sides before

    def __add__(self, other: "Moved") -> "Moved":
        return Moved(*(one + more for one, more in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        return f"{self.files} files, {self.nbytes / 1e6:.1f} MB; {self.kept} were the same already"


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results in the order of the items; the first failure stops what has not begun and is raised."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, items))


def upload(place: Place, files: Mapping[str, Path], listing: Listing | None = None) -> Moved:
    """Send files (name there: file here) that differ, and compare checksums of what arrived.

    Raises StudyError in one line where something stops it; what has arrived stays and is not sent again.
    """
    remote = place.listing() if listing is None else listing
    with explained(place.address):
        wanted = [name for name, path in files.items() if not is_same(path, place, name, remote.get(name))]
        side_by_side(lambda name: _send(place, name, files[name]), wanted)
    return Moved(len(wanted), sum(files[name].stat().st_size for name in wanted), len(files) - len(wanted))


def download(place: Place, files: Mapping[str, Path], listing: Listing) -> Moved:
    """Bring objects (name there: file here) that differ; each is replaced whole once its checksum agrees.

    Raises StudyError in one line where one is missing or arrives damaged; the file here stays as it was.
    """
    for name in files:
        if name not in listing:
            raise StudyError(f"{place.address}/{name} is missing; publish it again from the machine that made it")
    with explained(place.address):
        wanted = [name for name, path in files.items() if not is_same(path, place, name, listing[name])]
        side_by_side(lambda name: _bring(place, name, files[name], listing[name]), wanted)
    return Moved(len(wanted), sum(int(listing[name]["size"]) for name in wanted), len(files) - len(wanted))


def is_same(path: Path, place: Place, name: str, facts: Mapping[str, Any] | None) -> bool:
    """Whether a file here and an object, as its listing describes it, have the same content.

    Google's listing states a CRC32C; where a listing states none, the object is read.
    """
    if facts is None or not path.is_file() or int(facts["size"]) != path.stat().st_size:
        return False
    checksum = facts.get("crc32c")
    with path.open("rb") as here:
        if checksum:
            return _crc32c(here) == checksum
        with place.fs.open(place.path(name), "rb") as there:
            return hashlib.file_digest(here, "sha256").digest() == hashlib.file_digest(there, "sha256").digest()


def _crc32c(file: BinaryIO) -> str:
    import google_crc32c

    digest = google_crc32c.Checksum()
    while block := file.read(READ_BYTES):
        digest.update(block)
    return base64.b64encode(digest.digest()).decode()


def _send(place: Place, name: str, path: Path) -> None:
    aside = name if place.protocol in ATOMIC else f"{ASIDE}/{uuid.uuid4().hex}"
    for file in {aside, name}:
        place.fs.makedirs(place.path(file).rpartition("/")[0], exist_ok=True)
    try:
        place.fs.put_file(str(path), place.path(aside))
        if not is_same(path, place, aside, place.fs.info(place.path(aside))):
            if aside == name and _is_json(place.fs.cat_file(place.path(name))):
                raise StudyError(f"{place.address}/{name}: another machine sent its own at the same time; run again")
            place.fs.rm_file(place.path(aside))
            raise StudyError(f"{place.address}/{name}: arrived damaged and was removed; run again")
        if aside != name:
            place.fs.mv(place.path(aside), place.path(name))
    finally:
        if aside != name and place.fs.exists(place.path(aside)):
            place.fs.rm_file(place.path(aside))


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def _bring(place: Place, name: str, path: Path, facts: Mapping[str, Any]) -> None:
    with replacing(path) as aside:
        place.fs.get_file(place.path(name), str(aside))
        if not is_same(aside, place, name, facts):
            raise StudyError(f"{place.address}/{name}: arrived damaged and was not kept; run again")
