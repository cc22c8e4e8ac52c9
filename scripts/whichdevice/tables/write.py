"""From records to the tables."""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from whichdevice.config.hardware import HARDWARE, hardware_rows, price_sheet
from whichdevice.config.load import read_study
from whichdevice.tables.collect import collect
from whichdevice.tables.columns import Columns, write_table
from whichdevice.tables.published import read_published
from whichdevice.tables.registry import table_names
from whichdevice.tables.sources import Sources

TABLES: dict[str, Columns] = {name: import_module(f"{__package__}.{name}").COLUMNS for name in table_names()}


def write_tables(
    config_path: Path,
    record_paths: Iterable[Path],
    published_csv: Path,
    out_folder: Path,
    compiled_paths: Iterable[Path] = (),
    hardware_csv: Path = HARDWARE,
) -> None:
    """Write `TABLES` as CSV into `out_folder`. A record that cannot be read is a row with its reason."""
    study = read_study(config_path)
    sheet = hardware_rows(hardware_csv, price_sheet(study.prices))
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
