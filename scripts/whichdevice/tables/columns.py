"""What a table's columns hold, and tables as CSV files: typed alike when built and when read back."""

import csv
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from whichdevice.errors import StudyError
from whichdevice.workflow_command import make_tables

Kind = Literal["text", "int", "float", "flag"]
DTYPES: dict[Kind, Any] = {
    "text": pd.StringDtype("python", na_value=float("nan")),  # rows are taken faster than from pyarrow's arrays
    "int": "Int64",
    "float": "float64",
    "flag": "boolean",
}


class Column(NamedTuple):
    """The type of a column, and its meaning with its unit."""

    kind: Kind
    text: str


Columns = Mapping[str, Column]
UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")  # ends a CSV row early, or is no UTF-8

CELL = ["device", "workload", "backend", "precision", "batch_size", "fraction", "loop", "sequence_length"]
CELL_COLUMNS: dict[str, Column] = {
    "device": Column("text", "device, as the config names it"),
    "workload": Column("text", "workload, as the config names it"),
    "backend": Column("text", "Keras backend"),
    "precision": Column("text", "number format"),
    "batch_size": Column("int", "examples per step over all replicas; for matmul, N"),
    "fraction": Column("float", "share of the training data"),
    "loop": Column(
        "text", "epoch: one compiled program, in training of many steps; fit: plain model.fit or predict_on_batch"
    ),
    "sequence_length": Column("int", "steps per sequence, where the config sets it"),
}
TYPE_COLUMNS: dict[str, Column] = {
    "type_storage": Column("text", "number format of weights as kept; of operands for a single operation"),
    "type_product": Column("text", "number format of the factors of products, as really used"),
    "type_sum": Column("text", "number format in which the terms of a product are summed"),
    "emulated": Column("text", "how, where the device has no such products in hardware"),
    "remarks": Column("text", "what the run's label hides: layers in other number formats, a loss that became nan"),
}


def table(rows: Iterable[Mapping[str, Any]] | pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """Rows as a frame with exactly these columns, in this order and of these types; what a row lacks is missing."""
    if isinstance(rows, pd.DataFrame):
        frame = rows.reindex(columns=list(columns))
    else:
        listed = list(rows)
        frame = pd.DataFrame({name: _values(listed, name, column.kind) for name, column in columns.items()})
    return frame.astype({name: DTYPES[column.kind] for name, column in columns.items()})


def _values(rows: list[Mapping[str, Any]], name: str, kind: Kind) -> list[Any]:
    found = [row.get(name) for row in rows]
    if kind != "text" or all(one_line(value) is value for value in set(found)):  # few differ among many rows
        return found
    return [one_line(value) for value in found]


def one_line(value: Any) -> Any:
    """Text without control characters and the halves of a surrogate pair; anything else as it is."""
    return value if not isinstance(value, str) or value.isprintable() else UNWRITABLE.sub(" ", value)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV with six significant digits, aside and then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _as_text(frame).to_csv(aside, index=False, lineterminator="\n", encoding="utf-8")
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its numbers as text, which pandas by itself takes twice as long to write."""
    numbers = frame.select_dtypes("float64")
    text = {name: [f"{value:.6g}" if value == value else None for value in numbers[name].tolist()] for name in numbers}
    return frame.assign(**{str(name): pd.Series(text[name], frame.index, dtype="object") for name in text})


def read_table(path: Path, columns: Columns) -> pd.DataFrame:
    """Read a table written by `write_table`; text such as "NA" stays text. Raises StudyError naming the file."""
    try:
        frame = pd.read_csv(path, dtype="str", keep_default_na=False, na_values=[""], encoding="utf-8")
    except (OSError, pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise StudyError(f"cannot read table {path}: {error}; make it again: {make_tables(path.parent)}") from error
    if missing := [name for name in columns if name not in frame]:
        raise StudyError(f"table {path} lacks column {missing[0]}; make it again: {make_tables(path.parent)}")
    for name, column in columns.items():
        if column.kind == "flag":
            frame[name] = frame[name].map({"True": True, "False": False})
        elif column.kind != "text":
            frame[name] = pd.to_numeric(frame[name])
    return table(frame, columns)


def read_rows(path: Path) -> list[dict[str, str]]:
    """A hand-kept CSV file as rows of text, empty where a row ends early. Raises StudyError naming the file."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            return [{name: row[name] or "" for name in rows.fieldnames or ()} for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"cannot read {path}: {error}") from error
