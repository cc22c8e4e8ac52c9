"""Make the tables of a study from its records, as CSV files."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.prices import price_sheet
from whichdevice.study.cells import Run, parse_run
from whichdevice.study.claims import read_published
from whichdevice.study.config.load import read_study
from whichdevice.study.config.model import Study
from whichdevice.study.records.store import measured_elsewhere, read_record
from whichdevice.study.tables import get_table, runs, table_names
from whichdevice.study.tables.base import Columns, Sources, write_table

Rows = list[dict[str, Any]]
TABLES: dict[str, Columns] = {name: get_table(name).columns for name in table_names()}


def collect(study: Study, record_paths: Iterable[Path]) -> tuple[Rows, Rows]:
    """Return rows of `runs` and `epochs`: configured runs repeat by repeat, then other records by path."""
    run_rows: dict[str, dict[str, Any]] = {}
    curve_rows: dict[str, Rows] = {}
    for path in sorted({Path(path) for path in record_paths}, key=str):
        try:
            record = read_record(path)
        except StudyError as error:
            row = runs.unreadable_row(study, _run_of(path), path.as_posix(), str(error))
        else:
            row, curve_rows[record.run] = runs.run_row(record, path.as_posix()), list(runs.curve_rows(record))
        run_rows[row["run"]] = row
    measured_devices = {row["device"] for row in run_rows.values() if row.get("device")}
    ordered = {}
    for run in runs.configured_runs(study):
        ordered[run.path] = run_rows.get(run.path) or runs.missing_row(study, run, measured_devices)
    ordered |= {name: row for name, row in run_rows.items() if name not in ordered}
    others = measured_elsewhere(Path(study.root))
    for row in ordered.values():
        row["other_machine"] = row.get("device") in others
    return list(ordered.values()), [row for name in ordered for row in curve_rows.get(name, [])]


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
    sources = Sources(study, *collect(study, record_paths), read_published(published_csv), compiled_paths, sheet)
    for name in TABLES:
        write_table(sources.table(name), out_folder / f"{name}.csv")
