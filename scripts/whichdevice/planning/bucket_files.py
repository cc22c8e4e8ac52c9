"""A study whose machines share no file system: a bucket carries its files (Snakemake's default storage)."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.study_runs import workload_files

RESULTS = Path("results")
CONNECTIONS = 16
TIME_GRAIN = 0.01  # seconds that a file's time may lose on its way to a file system
MARK = ".bucket"  # in a study's folder: the bucket that holds its files


def share_results(local_copies: Path) -> None:
    """Let the storage's local copies of results/ be results/ itself, so that every path holds for both.

    `local_copies` is where the storage keeps results/ on this machine. Raises StudyError where something else is.
    """
    RESULTS.mkdir(exist_ok=True)
    local_copies.parent.mkdir(parents=True, exist_ok=True)
    target = os.path.relpath(RESULTS, local_copies.parent.resolve())
    try:
        local_copies.symlink_to(target)
    except FileExistsError as error:
        if not (local_copies.is_symlink() and local_copies.resolve() == RESULTS.resolve()):
            raise StudyError(f"{local_copies} is in the way: it should be a link to results/; move it away") from error


def bind_study(study: Study, bucket: str, write: bool = True) -> None:
    """Mark the study's folder as a bucket's; raises StudyError where it holds records that no bucket does, or another.

    Without `write` it only looks. Snakemake takes what the bucket lacks for missing: it would measure those records
    anew, in place of the old ones.
    """
    folder = Path(study.root)
    mark = folder / MARK
    known = mark.read_text(encoding="utf-8").strip() if mark.is_file() else None
    if known == bucket:
        return
    if next((folder / "runs").glob("*/*/*/*/record.json"), None) is not None:
        where = f"those of {known}" if known else "records that are in no bucket"
        raise StudyError(f"{folder} holds {where}; take another study name for {bucket}: --config study=<name>")
    if write:
        folder.mkdir(parents=True, exist_ok=True)
        mark.write_text(f"{bucket}\n", encoding="utf-8")


class StoredFile(Protocol):
    """What Snakemake's storage plugins know of one file."""

    def exists(self) -> bool:
        """Whether the bucket has it."""

    def mtime(self) -> float:
        """When it was written."""

    def retrieve_object(self) -> None:
        """Copy it to this machine."""


def bring(files: Mapping[Path, StoredFile], replace: bool = True) -> None:
    """Fetch what this machine lacks, and with `replace` what the bucket has newer; side by side, as old as it is there.

    Raises StudyError where the bucket cannot be read.
    """
    wanted = {path: stored for path, stored in files.items() if replace or not path.is_file()}
    if not wanted:
        return
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for future in [pool.submit(_bring_one, path, stored) for path, stored in wanted.items()]:
            try:
                future.result()
            except Exception as error:  # each storage plugin has errors of its own
                pool.shutdown(cancel_futures=True)
                raise StudyError(f"cannot read the bucket: {' '.join(str(error).split())}") from error


def _bring_one(path: Path, stored: StoredFile) -> None:
    if not stored.exists():
        return
    written = stored.mtime()
    if path.is_file() and path.stat().st_mtime > written - TIME_GRAIN:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    stored.retrieve_object()
    os.utime(path, (written, written))


def files_to_send(study: Study, project: Path) -> list[str]:
    """What the jobs' machines need beside the workflow's own files: the resolved config, sheets, own workloads."""
    sheets = sorted(os.path.relpath(sheet) for sheet in (project / "config").glob("*.csv"))
    prices = [study.prices] if study.prices and study.prices not in sheets else []
    return [f"{study.root}/config.yaml", *sheets, *prices, *workload_files(study)]


def arrays_of(dataset_json: str) -> str:
    """The archive of a prepared dataset's arrays, beside its folder."""
    return f"{Path(dataset_json).parent}.tar"


def artefacts_of(record: str) -> str:
    """The archive of a run's artefacts, beside its record."""
    return str(Path(record).with_name("artefacts.tar"))
