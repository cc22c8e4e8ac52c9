"""The hardware sheet: peaks and prices of devices with the source of each, kept by hand in config/hardware.csv."""

import csv
import math
import re
from pathlib import Path

from whichdevice.errors import StudyError

HARDWARE = Path(__file__).parents[3] / "config" / "hardware.csv"
NUMBERS = (
    "fp32_tflops", "tf32_tflops", "half_dense_tflops", "mem_gb", "mem_bw_gbs", "power_w", "usd_hour_per_chip", "cores",
)  # fmt: skip
TEXTS = ("device", "kind", "half_type", "power_term", "price_scope", "spec_source", "price_source", "status", "matches")


def hardware_rows(path: Path = HARDWARE) -> dict[str, dict[str, str]]:
    """The rows of the sheet by device, empty where one ends early.

    Raises StudyError when the sheet cannot be read, lacks a column, or a number in it is none.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            sheet = csv.DictReader(file, restkey="further", restval="")
            if missing := [name for name in (*TEXTS, *NUMBERS) if name not in (sheet.fieldnames or ())]:
                raise StudyError(f"{path.name}: no column {missing[0]}")
            return {row["device"]: _checked(row, f"{path.name}, line {sheet.line_num}") for row in sheet}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"cannot read {path.name}: {error}") from error


def _checked(row: dict[str, str], where: str) -> dict[str, str]:
    for name in NUMBERS:
        if row[name] and not _is_amount(row[name]):
            raise StudyError(f"{where}: {name} is {row[name][:40]!r}, which is no number of at least 0")
    try:
        re.compile(row["matches"])
    except (re.error, OverflowError, RecursionError) as error:
        raise StudyError(f"{where}: matches is no pattern: {' '.join(str(error).split())}") from error
    return row


def _is_amount(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and float(text) >= 0
    except ValueError:
        return False
