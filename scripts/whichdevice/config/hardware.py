"""The hardware sheet: peaks and prices of devices with the source of each, kept by hand in config/hardware.csv."""

import csv
from pathlib import Path

from whichdevice.errors import StudyError

HARDWARE = Path(__file__).parents[3] / "config" / "hardware.csv"


def hardware_rows(path: Path = HARDWARE) -> dict[str, dict[str, str]]:
    """The rows of the sheet by device. Raises StudyError when it cannot be read."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {row["device"]: row for row in csv.DictReader(file)}
    except (OSError, UnicodeDecodeError, csv.Error, KeyError) as error:
        raise StudyError(f"cannot read {path.name}: {error}") from error
