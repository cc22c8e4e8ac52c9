"""Define what tables are made of: typed columns, CSV files, labels of rows, and the sources of a study's tables."""

import csv
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import pandas as pd

from whichdevice.base.errors import StudyError
from whichdevice.base.files import csv_rows, replacing
from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.base.sheets.tpus import devices_of
from whichdevice.study.cells import make_tables
from whichdevice.study.claims import Claim
from whichdevice.study.config.model import Study
from whichdevice.study.tables import get_table

Made = TypeVar("Made")
Kind = Literal["text", "int", "float", "flag"]
DTYPES: dict[Kind, Any] = {
    "text": pd.StringDtype("python", na_value=float("nan")),  # rows are taken faster than from pyarrow's arrays
    "int": "Int64",
    "float": "float64",
    "flag": "boolean",
}
UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")  # ends a CSV row early, or is no UTF-8
CELL = ["device", "workload", "backend", "precision", "batch_size", "fraction", "sequence_length"]


class Column(NamedTuple):
    """The type of a column, and its meaning with its unit."""

    kind: Kind
    text: str


Columns = Mapping[str, Column]
COLUMNS_FILE = Path(__file__).with_name("columns.csv")


def columns_of(name: str) -> dict[str, Column]:
    """The columns of a table, or those that several tables have together, by `columns.csv`.

    There a row of kind `columns` stands for all columns of the name; a column that is given again replaces the former.
    """
    columns: dict[str, Column] = {}
    for row in _rows_of_columns()[name]:
        kind: Any = row["kind"]
        columns |= columns_of(row["name"]) if kind == "columns" else {row["name"]: Column(kind, row["meaning"])}
    return columns


@cache
def _rows_of_columns() -> dict[str, list[dict[str, str]]]:
    rows: dict[str, list[dict[str, str]]] = {}
    for row in csv_rows(COLUMNS_FILE):
        rows.setdefault(row["table"], []).append(row)
    return rows


def table(rows: Iterable[Mapping[str, Any]] | pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """Rows as a frame with exactly these columns, in this order and of these types; what a row lacks is missing."""
    if isinstance(rows, pd.DataFrame):
        frame = rows.reindex(columns=list(columns))
    else:
        listed = list(rows)
        frame = pd.DataFrame({name: _values(listed, name, column.kind) for name, column in columns.items()})
    return frame.astype({name: DTYPES[column.kind] for name, column in columns.items()})


def _values(rows: list[Mapping[str, Any]], name: str, kind: Kind) -> list[Any]:
    values = [row.get(name) for row in rows]
    if kind != "text" or all(one_line(value) is value for value in set(values)):  # few differ among many rows
        return values
    return [one_line(value) for value in values]


def one_line(value: Any) -> Any:
    """Text without control characters and the halves of a surrogate pair; anything else as it is."""
    return value if not isinstance(value, str) or value.isprintable() else UNWRITABLE.sub(" ", value)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV with six significant digits."""
    with replacing(path) as aside:
        _as_text(frame).to_csv(aside, index=False, lineterminator="\n", encoding="utf-8")


def _as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with its numbers as text, which is written twice as fast."""
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


def length_words(row: "pd.Series | Mapping[str, Any]") -> list[str]:
    """The length of its sequences: one word group, none for work without sequences."""
    return [] if pd.isna(row["sequence_length"]) else [f"length {row['sequence_length']}"]


def share_words(row: "pd.Series | Mapping[str, Any]") -> list[str]:
    """The share of the data it trains on: one word group, none for all of them."""
    return [] if row["fraction"] == 1 else [f"{row['fraction'] * 100:.3g} % of data"]


def diverged_words(row: "pd.Series | Mapping[str, Any]") -> list[str]:
    """How many of the runs that learned diverged: one word group, none where none did."""
    count = row["n_diverged"]
    return [f"{count} of {row['n_learned']} diverged"] if pd.notna(count) and count else []


def device_name(row: pd.Series) -> str:
    """`T4`, `8 × T4`, or chips of a TPU: `4 × TPU v5e`."""
    chips = row["devices"] // devices_of(str(row["device"]))
    return str(row["device"]) if chips <= 1 else f"{chips} × {row['device']}"


class Sources:
    """A study's tables by name, each made when it is first asked for.

    `run_rows` and `curve_rows` are the records' rows, `claimed` the published figures,
    `compiled_paths` the records of compiled programs, `sheet` the hardware and its prices.
    """

    def __init__(
        self,
        study: Study,
        run_rows: list[dict[str, Any]],
        curve_rows: list[dict[str, Any]],
        claimed: list[Claim],
        compiled_paths: Iterable[Path],
        sheet: Mapping[str, HardwareRow],
    ) -> None:
        self.study, self.sheet, self.claimed = study, sheet, claimed
        self.run_rows, self.curve_rows = run_rows, curve_rows
        self.compiled_paths = list(compiled_paths)
        self._made: dict[Callable[[Sources], Any], Any] = {}

    def table(self, name: str) -> pd.DataFrame:
        """The table of this name."""
        return self.once(get_table(name).make)

    def once(self, make: Callable[["Sources"], Made]) -> Made:
        """Return what a function makes of these sources; it is called once."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]
