"""Records from the machine into results/<study>/runs: unpacked aside, verified, then put in place one by one."""

import gzip
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from whichdevice.cells import parse_run
from whichdevice.cloud.shipping import digest
from whichdevice.datasets.weather_archive import Member
from whichdevice.errors import StudyError
from whichdevice.records.store import read_record

CHECKSUMS = ".checksums"
RECORD = "record.json"
MOST_BYTES = 2**36  # of all runs of one machine, unpacked; a run leaves some megabytes
Read = Callable[[Callable[[bytes], None]], None]  # hands an archive over, piece by piece


@dataclass
class Brought:
    """What became of the machine's records, as paths below runs/."""

    new: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)  # that the machine had been given and measured again
    same: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)  # another record stands in their place here
    refused: list[str] = field(default_factory=list)  # one line each


@dataclass
class Home:
    """Where records go, and which of them the machine was given at its start."""

    root: Path  # results/<study>
    name: str  # of the machine
    devices: set[str]  # that it measures
    given: dict[str, str]  # run, as a path below runs/: SHA-256 of its record

    @property
    def aside(self) -> Path:
        """Where records go whose place is taken."""
        return self.root / "brought" / self.name

    def bring(self, read: Read) -> Brought:
        """Take an archive of records. Raises StudyError when it is cut, or when there is no room; it then says where
        the archive is kept."""
        self.root.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".from-{self.name}-", dir=self.root))
        try:
            archive = scratch / "archive"
            _spool(read, archive)
            return self._unpack(archive, scratch)
        except OSError as error:
            raise StudyError(self._kept_elsewhere(read, error)) from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _kept_elsewhere(self, read: Read, error: OSError) -> str:
        """One line that says where the archive is kept instead, so that the machine can go."""
        try:
            handle, kept = tempfile.mkstemp(prefix=f"{self.name}-", suffix=".tar.gz")
            os.close(handle)
            _spool(read, Path(kept))
        except OSError as other:
            return f"the records cannot be written to {self.root} ({error.strerror}), nor elsewhere ({other.strerror})"
        return (
            f"the records cannot be written to {self.root} ({error.strerror}) and are kept in {kept}: make room, then "
            f"tar -xzkf {kept} -C {self.root} runs"
        )

    def _unpack(self, archive: Path, scratch: Path) -> Brought:
        brought = Brought()
        if archive.stat().st_size == 0:
            return brought
        try:
            with tarfile.open(archive, "r:gz", tarinfo=Member) as packed:
                _extract(packed, scratch)
        except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
            why = " ".join(str(error).split())
            raise StudyError(f"the records came back cut or garbled ({why}); nothing of them was taken") from error
        sums = _checksums(scratch / CHECKSUMS)
        for record in sorted(scratch.glob(f"runs/**/{RECORD}")):
            path = record.parent.relative_to(scratch / "runs").as_posix()
            try:
                self._verify(path, record.parent, scratch, sums)
            except StudyError as error:
                brought.refused.append(str(error).replace(f"{scratch}/", ""))
            else:
                self._take(path, record.parent, brought)
        return brought

    def _verify(self, path: str, folder: Path, scratch: Path, sums: Mapping[str, str]) -> None:
        """Raise StudyError unless the run is one of this machine's devices and every byte is as it was there."""
        run = parse_run(path)
        if run.cell.device not in self.devices:
            raise StudyError(f"{path}: {run.cell.device} is no device that this machine measures")
        for file in _files(folder):
            name = file.relative_to(scratch).as_posix()
            if sums.get(name) != digest(file):
                raise StudyError(f"{name} is not what it was on the machine")
        record = read_record(folder / RECORD)
        if record.run != path:
            raise StudyError(f"{path}/{RECORD} is the record of {record.run}")
        for artefact in record.artefacts.values():
            if sums.get(f"runs/{path}/{artefact.file}") != artefact.sha256:
                raise StudyError(f"{path}/{artefact.file} is missing or not what its record says")

    def _take(self, path: str, folder: Path, brought: Brought) -> None:
        target = self.root / "runs" / path
        here = digest(target / RECORD) if (target / RECORD).exists() else None
        came = digest(folder / RECORD)
        if here == came:
            brought.same.append(path)
            return
        if here is None:
            brought.new.append(path)
        elif here == self.given.get(path):
            brought.replaced.append(path)
        else:
            target = self.aside / path
            brought.aside.append(path)
        _place(folder, target)
        if here is None or here == self.given.get(path):
            self.given[path] = came  # a later and better attempt may replace it

    def lines(self, brought: Brought) -> Iterator[str]:
        """What a person needs to know."""
        taken = len(brought.new) + len(brought.replaced)
        yield f"{taken} records brought back to {self.root}/runs; {len(brought.same)} were here already."
        if brought.aside:
            yield (
                f"{len(brought.aside)} records differ from those that are here and lie in {self.aside}, e.g. "
                f"{brought.aside[0]}; move them over, or delete them."
            )
        for line in brought.refused:
            yield f"Not taken: {line}"


def _spool(read: Read, archive: Path) -> None:
    with archive.open("wb") as file:

        def take(piece: bytes) -> None:
            file.write(piece)

        read(take)


def _extract(packed: tarfile.TarFile, into: Path) -> None:
    """Plain files alone, each below the folder; anything else is no archive of ours."""
    total = 0
    for entry in packed:
        total += abs(entry.size)
        if total > MOST_BYTES:
            raise StudyError(f"the records came back with more than {MOST_BYTES:,} bytes, which no study has")
        place = PurePosixPath(entry.name)
        ours = place.parts[:1] == ("runs",) or entry.name == CHECKSUMS
        if place.is_absolute() or ".." in place.parts or not ours or not entry.isfile():
            raise StudyError(f"the records came back with {entry.name!r} among them, which is no file of a run")
        source = packed.extractfile(entry)
        assert source is not None
        target = into / place
        target.parent.mkdir(parents=True, exist_ok=True)
        with source, target.open("wb") as file:
            shutil.copyfileobj(source, file)


def _checksums(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    return {name: value for value, _, name in (line.partition("  ") for line in lines)}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _place(folder: Path, target: Path) -> None:
    """Move a run's files, its record last: a record that is there is whole, and so is what it names."""
    for file in sorted(_files(folder), key=lambda file: (file.name == RECORD, file)):
        place = target / file.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(file, place)
