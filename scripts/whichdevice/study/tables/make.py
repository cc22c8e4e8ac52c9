"""Make the tables of a study from its records, as CSV files; many records are read by several processes."""

import gc
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from whichdevice.base.cpu import usable_cores
from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.prices import price_sheet
from whichdevice.study.cells import Run, parse_run
from whichdevice.study.config.load import read_study
from whichdevice.study.config.model import Study
from whichdevice.study.records.store import measured_elsewhere, read_record
from whichdevice.study.tables import get_table, runs, table_names
from whichdevice.study.tables.base import Columns, Sources, write_table
from whichdevice.study.tables.published import read_published
from whichdevice.study.tables.runs import epoch_rows, run_row

Rows = list[dict[str, Any]]
Parts = tuple[dict[str, Any], Rows]  # the row of one record, and the rows of its epochs
MAX_WORKERS = 4  # processes: what follows takes one
FEW = 2000  # records that one process reads in about the time that starting others takes
AT_ONCE = 250  # records that a process is given: enough that names of columns are sent once for many rows
TABLES: dict[str, Columns] = {name: get_table(name).columns for name in table_names()}


def collect(study: Study, record_paths: Iterable[Path]) -> tuple[Rows, Rows]:
    """Return rows of `runs` and `epochs`: configured runs repeat by repeat, then other records by path."""
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
    others = measured_elsewhere(Path(study.root))
    for row in ordered.values():
        row["other_machine"] = row.get("device") in others
    return list(ordered.values()), [row for name in ordered for row in epoch_rows.get(name, [])]


def _read_all(paths: list[Path]) -> Iterator[Parts | str]:
    """Return what `_read` says of each path, in order."""
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
    return min(MAX_WORKERS, usable_cores())


def _read(path: Path) -> Parts | str:
    """Return the rows of a record, or why it cannot be read."""
    try:
        record = read_record(path)
    except StudyError as error:
        return str(error)
    return run_row(record, path.as_posix()), list(epoch_rows(record))


def _run_of(path: Path) -> Run | None:
    try:
        return parse_run(path.as_posix())
    except StudyError:
        return None


def write_tables(
    config_path: Path,
    record_paths: Iterable[Path],
    published_csv: Path,
    out_folder: Path,
    compiled_paths: Iterable[Path] = (),
) -> None:
    """Write `TABLES` as CSV into `out_folder`. A record that cannot be read is a row with its reason."""
    study = read_study(config_path)
    sheet = hardware_rows(prices=price_sheet(study.prices))
    with _no_garbage():
        rows = collect(study, record_paths)
        sources = Sources(study, *rows, read_published(published_csv), compiled_paths, sheet)
        frames = {name: sources.table(name) for name in TABLES}
        for name, frame in frames.items():
            write_table(frame, out_folder / f"{name}.csv")


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Looking for cycles again and again is half the time that reading 100,000 records takes; they hold none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

