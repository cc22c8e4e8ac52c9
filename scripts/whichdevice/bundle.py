"""Files that have no name of their own in a rule, as one archive: what a bucket carries between machines."""

import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

from whichdevice.errors import StudyError
from whichdevice.tar_members import Member

MOST_BYTES = 2**36  # that a bundle may hold; the arrays of the largest dataset need some hundred megabytes


def pack(files: Iterable[Path], folder: Path, bundle: Path) -> None:
    """Write `files`, which lie below `folder`, and folders with all they hold into `bundle`; whole or not at all.

    The same files give the same archive anywhere: it holds no times and no owners.
    """
    bundle.parent.mkdir(parents=True, exist_ok=True)
    aside = bundle.with_name(f".{bundle.name}.{os.getpid()}")
    try:
        with tarfile.open(aside, "w", format=tarfile.PAX_FORMAT, dereference=True) as archive:
            for path in sorted(files):
                archive.add(path, path.relative_to(folder).as_posix(), filter=_anonymous)
        os.replace(aside, bundle)
    except OSError as error:
        raise StudyError(f"cannot write {bundle}: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)


def unpack(bundle: Path, folder: Path) -> None:
    """Put what `bundle` holds into `folder`; raises StudyError where it cannot be read or points outside of it.

    It is not compressed: files that claim to be larger than all of it are sparse ones, which would fill the disk.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        size = bundle.stat().st_size
        with tarfile.open(bundle, "r:", tarinfo=Member) as archive:
            members = archive.getmembers()
            for member in members:
                if not (member.isfile() or member.isdir()):
                    odd = f"{member.name[:100]!r} in it is neither file nor folder"
                    raise StudyError(f"cannot unpack {bundle}: {odd}; delete it")
            held = sum(abs(member.size) for member in members)
            if held > min(size, MOST_BYTES):
                raise StudyError(f"cannot unpack {bundle}: its {size:,} bytes say that they hold {held:,}; delete it")
            archive.extractall(folder, filter="data")
    except (OSError, tarfile.TarError) as error:
        why = " ".join(str(error).split())
        raise StudyError(f"cannot unpack {bundle}: {why}; delete it to make it anew") from error


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = 0
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
