"""Show every measured cell in one table.

Each cell has a card that says how to measure it again, and each machine with its software has a card.
"""

import json
import os
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from whichdevice.base.numbers import percent, quality, seconds, size
from whichdevice.study.report.numbers import Number, cell_key, cell_number, estimate
from whichdevice.study.results import StudyResults
from whichdevice.study.tables.base import CELL, diverged_words
from whichdevice.study.tables.runs import NOT_MEASURED

CARD_TITLES = {
    "device": "Device",
    "device_name": "Device name",
    "device_count": "Devices used",
    "cpu": "Processor",
    "threads": "Threads",
    "physical_cores": "Physical cores",
    "host_memory": "Memory",
    "operating_system": "Operating system",
    "driver": "Driver",
    "python": "Python",
    "versions": "Libraries",
    "flags": "Settings",
    "meter": "Energy meter",
    "git_commit": "Commit",
    "code_hash": "Measuring code",
}
CARD_KEY = [name for name in CARD_TITLES if name != "code_hash"]  # what tells cards apart
CardKey = tuple[Any, ...]
STUDY = ("whichdevice", "study")
AGAIN = "again"  # a separate folder for the repeated run: the study's record stays
FACT_TITLES = {
    "device_name": "Device",
    "threads": "Threads",
    "versions": "Libraries",
    "flags": "Settings",
    "git_commit": "Commit",
    "code_hash": "Measuring code",
    "seed": "Seed",
}
UNMEASURED = "not measured"


class Heading(NamedTuple):
    """A column of the table, and whether it holds numbers."""

    key: str
    title: str
    numbers: bool = True
    meaning: str = ""


HEADINGS = [
    Heading("workload", "Workload", False),
    Heading("device", "Device", False),
    Heading("backend", "Backend", False),
    Heading("precision", "Format", False, "number format"),
    Heading("batch_size", "Batch / N", meaning="examples per step over all replicas; N of matrix products"),
    Heading("fraction", "Data", meaning="share of the training data"),
    Heading("sequence_length", "Length", meaning="steps per sequence"),
    Heading("throughput", "Throughput"),
    Heading("step_time", "Step"),
    Heading("latency_p50", "Median call", meaning="of mode predict: from inputs to predictions in host memory"),
    Heading("latency_p99", "99th percentile", meaning="of calls; it needs 100 of them in each process"),
    Heading("prefill_time", "Prompts", meaning="of mode generate: the prompts of a batch in one program"),
    Heading("tflops", "TFLOP/s"),
    Heading("mfu", "Of peak", meaning="of the best product that a framework reached here in this format"),
    Heading("epoch_time", "Epoch, computed", meaning="steps per epoch x step time"),
    Heading("quality", "Quality", meaning="validation, at the end of learning"),
    Heading("first_step", "First step", meaning="trace, compilation and one step"),
    Heading("peak_host", "Host memory", meaning="peak of the process, or of one per replica together"),
    Heading("peak_device", "Device memory"),
    Heading("disturbed", "Disturbed", meaning="runs that the machine disturbed; they count"),
    Heading("status", "Status", False),
    Heading("again", "Again", False),
]


class Card(NamedTuple):
    """A machine with its software: number on the page, from 1, and lines."""

    number: int
    lines: list[tuple[str, str]]


def machine_cards(runs: pd.DataFrame) -> dict[CardKey, Card]:
    """The cards by key, in the order of their first runs."""
    ran = runs[(runs["status"] != "not_measured") & runs["started"].notna()]
    cards: dict[CardKey, Card] = {}
    for _, rows in ran.groupby(CARD_KEY, sort=False, dropna=False):
        first = rows.iloc[0]
        lines = [(title, text) for name, title in CARD_TITLES.items() if (text := _written(name, rows[name].dropna()))]
        lines.append(("Runs", f"{len(rows)}, {rows['started'].min()} to {rows['started'].max()} UTC"))
        cards[cell_key(first, CARD_KEY)] = Card(len(cards) + 1, lines)
    return cards


def _written(name: str, values: pd.Series) -> str:
    """Return the value of a card's line; for code, which differs between workloads, every value."""
    return ", ".join(f"{value / 2**30:.1f} GiB" if name == "host_memory" else str(value) for value in values.unique())


class Links:
    """Addresses relative to the page, so that the whole folder can move."""

    def __init__(self, page: Path) -> None:
        self.folder = Path(page).absolute().parent

    def to(self, path: Any) -> str | None:
        """Return the relative address of a file, or None for an address in a bucket."""
        text = str(path)
        return None if "://" in text else Path(os.path.relpath(Path(text).absolute(), self.folder)).as_posix()


def reproductions(study: StudyResults, page: Path, cards: dict[tuple[Any, ...], int]) -> dict[tuple[Any, ...], Any]:
    """Return what the card of each cell of table `runs` says; `cards` numbers the machines below."""
    links, cards_of_cells = Links(page), {}
    for _, runs in study.runs.groupby(CELL, dropna=False, sort=False):
        first = runs.iloc[0]
        cards_of_cells[cell_key(first)] = _card(study, runs, first, links, cards)
    return cards_of_cells


def _card(
    study: StudyResults, runs: pd.DataFrame, first: pd.Series, links: Links, cards: dict[tuple[Any, ...], int]
) -> dict[str, Any]:
    config = f"{study.study.root}/config.yaml"
    ran = runs[runs["started"].notna() & (runs["status"] != NOT_MEASURED)]
    only = "only={" + ", ".join(f"{axis}: {_yaml(first[axis])}" for axis in CELL if pd.notna(first[axis])) + "}"
    kind = "all" if pd.isna(first["kind"]) else str(first["kind"])
    in_study = ["--configfile", config]
    return {
        "name": " · ".join(str(part) for part in first["run"].split("/")[:3]),
        "workflow": shlex.join([*STUDY, kind, *in_study, "--config", only, "--", "--forcerun", "measure"]),
        "by_hand": shlex.join(["python", "scripts/measure.py", config, f"{AGAIN}/{first['run']}/record.json"]),
        "then": shlex.join([*STUDY, "report", *in_study, "--records", AGAIN, "--rename", f"{first['device']}=again"]),
        "config": links.to(study.config_path),
        "records": [
            (f"r{row['repeat']}", str(row["status"]).replace("_", " "), links.to(row["record"]))
            for _, row in ran.iterrows()
        ],
        "machines": sorted({cards[key] for _, row in ran.iterrows() if (key := cell_key(row, CARD_KEY)) in cards}),
        "facts": [(title, " / ".join(map(str, ran[name].dropna().unique()))) for name, title in FACT_TITLES.items()],
    }


def _yaml(value: Any) -> str:
    """A value as YAML takes it on a command line."""
    if isinstance(value, str):
        return value if value.replace("_", "").isalnum() and not value[0].isdigit() else json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def cell_table(study: StudyResults) -> dict[str, Any]:
    """Return rows, and the headings of the columns that hold something."""
    roofs = {cell_key(row): row for _, row in study.roofline.iterrows()}
    rows = [
        _row(row, roofs.get(cell_key(row)))
        for _, row in study.summary.iterrows()
        if row["device"] in study.devices or not str(row["status"]).startswith(UNMEASURED)  # else a row for each cell
    ]
    shown = [head for head in HEADINGS if head.key == "again" or any(row.get(head.key) is not None for row in rows)]
    return {"rows": rows, "headings": shown}


def _row(row: pd.Series, roof: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        **{name: row[name] for name in ("workload", "device", "backend", "precision", "kind")},
        "batch_size": Number(float(row["batch_size"]), f"{row['batch_size']}"),
        "fraction": Number(float(row["fraction"]), percent(row["fraction"])),
        "sequence_length": cell_number(row, "sequence_length"),
        "status": _status(row),
        "emulated": row["emulated"] if pd.notna(row["emulated"]) else None,
        "remarks": row["remarks"] if pd.notna(row["remarks"]) else None,
        "key": cell_key(row),
    }
    return values | _measured(row, roof) if (row["n_timed"] or 0) > 0 else values


def _status(row: pd.Series) -> str:
    words = str(row["status"])
    ended = f"{row['n_ok']} of {row['n']} ok" if words == "ok" else words
    return ", ".join([ended, *diverged_words(row)])


def _measured(row: pd.Series, roof: Any) -> dict[str, Any]:
    learned = "validation_metric" if pd.notna(row["validation_metric"]) else "validation_loss"
    name = "validation loss" if learned == "validation_loss" else f"validation {row['metric']}"
    tflops = None if roof is None else estimate(roof, "tflops")
    return {
        "throughput": estimate(row, "throughput", unit=f"{row['unit']}s/s", n="n_timed"),
        **{
            name: estimate(row, name, seconds, n="n_timed")
            for name in ("first_step", "step_time", "epoch_time", "prefill_time")
        },
        **{name: estimate(row, name, milliseconds, n="n_timed") for name in ("latency_p50", "latency_p99")},
        "tflops": tflops or estimate(row, "tflops", n="n_timed"),
        "mfu": None if roof is None else estimate(roof, "mfu", percent),
        "quality": estimate(row, learned, quality, name, "n_learned"),
        "peak_host": estimate(row, "peak_host", size, n="n_timed"),
        "peak_device": estimate(row, "peak_device", size, n="n_timed"),
        "disturbed": cell_number(row, "n_disturbed"),
    }


def milliseconds(value: float) -> str:
    """A time in milliseconds for people."""
    return seconds(value / 1e3)
