"""Rows of config/tpu_published.csv. Imports no framework."""

import csv
from dataclasses import dataclass
from pathlib import Path

PUBLISHED = Path(__file__).parents[2] / "config" / "tpu_published.csv"


@dataclass(frozen=True)
class Row:
    """One published time and the program behind it."""

    id: str
    program: str
    topology: str  # as libtpu names it
    devices: int
    published_devices: int
    batch: int  # global, of the devices compiled for; the width N of a square product
    sequence: int
    step_ms: float

    @property
    def key(self) -> str:
        """Rows with the same key share a compiled program."""
        return f"{self.program}-{self.topology.replace(':', '-')}-{self.batch}-{self.sequence}"


def published_rows(path: Path = PUBLISHED) -> list[Row]:
    """The rows that stand for a comparison, in the file's order."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["use"] == "compare"]
    return [
        Row(
            row["id"],
            row["program"],
            row["topology"],
            int(row["devices"]),
            int(row["published_devices"]),
            int(row["global_batch"] or 0),
            int(row["sequence_length"] or 0),
            float(row["step_ms"]),
        )
        for row in rows
    ]
