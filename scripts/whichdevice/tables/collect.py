"""From records to the rows of `runs` and `epochs`; many records are read by several processes."""

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from whichdevice.cells import Run, parse_run
from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.machine.limits import usable_cores
from whichdevice.records.store import read_record
from whichdevice.tables import epochs, runs
from whichdevice.tables.run_row import run_row

Rows = list[dict[str, Any]]
MOST = 4  # processes: what follows takes one
FEW = 2000  # records that one process reads in about the time that starting others takes
AT_ONCE = 250  # records that a process is given: enough that names of columns are sent once for many rows


def collect(study: Study, record_paths: Iterable[Path]) -> tuple[Rows, Rows]:
    """Rows of `runs` and `epochs`: configured runs repeat by repeat, then other records by path."""
    run_rows: dict[str, dict[str, Any]] = {}
    epoch_rows: dict[str, Rows] = {}
    paths = sorted({Path(path) for path in record_paths}, key=str)
    for path, read in zip(paths, _read_all(paths), strict=True):
        if isinstance(read, str):
            row = runs.unreadable_row(study, _run_of(path), path.as_posix(), read)
        else:
            row, epoch_rows[read[0]["run"]] = read
        run_rows[row["run"]] = row
    measured_devices = {row["device"] for row in run_rows.values() if row.get("device")}
    ordered = {}
    for run in runs.configured_runs(study):
        ordered[run.path] = run_rows.get(run.path) or runs.missing_row(study, run, measured_devices)
    ordered |= {name: row for name, row in run_rows.items() if name not in ordered}
    return list(ordered.values()), [row for name in ordered for row in epoch_rows.get(name, [])]


def _read_all(paths: list[Path]) -> Iterator[tuple[dict[str, Any], Rows] | str]:
    """What `_read` says of each path, in order."""
    processes = readers(len(paths))
    if processes == 1:
        yield from map(_read, paths)
        return
    with ProcessPoolExecutor(processes, get_context("fork")) as pool:  # a fork needs no imports, and no __main__ again
        try:
            yield from pool.map(_read, paths, chunksize=AT_ONCE)
        except BrokenProcessPool:
            raise StudyError(
                "a process that read records was killed, perhaps for want of memory; try it again"
            ) from None


def readers(records: int) -> int:
    """How many processes read so many records; Snakemake's --cores counts jobs, as it does for runs."""
    if records < FEW or not sys.platform.startswith("linux"):  # elsewhere a fork is not safe
        return 1
    return min(MOST, usable_cores())


def _read(path: Path) -> tuple[dict[str, Any], Rows] | str:
    """The row of a record and those of its epochs, or why there are none."""
    try:
        record = read_record(path)
    except StudyError as error:
        return str(error)
    return run_row(record, path.as_posix()), list(epochs.epoch_rows(record))


def _run_of(path: Path) -> Run | None:
    try:
        return parse_run(path.as_posix())
    except StudyError:
        return None
