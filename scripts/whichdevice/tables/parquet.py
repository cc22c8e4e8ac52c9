"""The tables as Parquet files: the same columns with their types, and what each means in the file itself."""

import os
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from whichdevice.errors import StudyError
from whichdevice.tables import comparison
from whichdevice.tables.columns import read_table
from whichdevice.tables.write import TABLES
from whichdevice.workflow_command import make_tables


def write_parquet(tables_folder: Path, out_folder: Path) -> list[Path]:
    """Write every table of a study that is there; raises StudyError where there is none, or no pyarrow."""
    if find_spec("pyarrow") is None:
        raise StudyError("Parquet needs pyarrow, which this environment lacks: pip install pyarrow")
    written = []
    for name, columns in {**TABLES, "compare": comparison.COLUMNS}.items():
        source = tables_folder / f"{name}.csv"
        if source.is_file():
            frame = read_table(source, columns)
            frame.attrs = {column: about.text for column, about in columns.items()}
            written.append(out_folder / f"{name}.parquet")
            _write(frame, written[-1])
    if not written:
        raise StudyError(f"no tables in {tables_folder}; make them: {make_tables(tables_folder)}")
    return written


def _write(frame: pd.DataFrame, path: Path) -> None:
    """Write a table aside and rename it; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        frame.to_parquet(aside, index=False)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
