"""Make table `published`."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from whichdevice.base.errors import StudyError
from whichdevice.study.tables import makes
from whichdevice.study.tables.base import CELL, Sources, columns_of, epochs_words, read_rows, table
from whichdevice.study.tables.measured import OPERATIONS, enough_repeats

PRECISION = "float32"  # what a publication is taken to have used where it does not say
VALIDATION, YES, NO = "validation", "yes", "no"  # whether a published time holds validation, as Keras' own times do
TRAINING_TIMES = ("step_time", "sample_time", "first_epoch_time", "learned_epoch_time")  # times of training alone
DISPUTED = "disputed"
PUBLISHED_COLUMNS = columns_of("published")
# What a measured number is proportional to, and has its interval from; learned epochs only where computed from steps.
BOUNDED = {
    "step_time": "step_time",
    "sample_time": "step_time",
    "learned_epoch_time": "step_time",
    "tflops": "throughput",
}
NUMBERS = {"value", "batch_size", "epochs", "steps_per_epoch", "sequence_length", "chips", "suspect_factor"}


def parse_number(text: str | None) -> float | None:
    """A number of the hand-kept sheet, or None where it is empty."""
    return float(text) if text else None


class Matching(NamedTuple):
    """The column of the summary that holds what a published metric means."""

    column: str
    n: str  # column with the number of runs
    scale: float = 1.0
    per_epoch: bool = False  # depends on the number of steps in an epoch
    learned: bool = False  # depends on the number of epochs learned
    quality: bool = False  # depends on the data
    higher_is_better: bool = False


def unlike_words(entry: Mapping[str, str], matching: Matching, cell: pd.Series) -> Iterator[str]:
    """Yield what makes the measured case another one than the published, so that no ratio may be given."""
    if entry["metric"] == "tpu_init_time" and cell["kind"] != "tpu":
        yield f"published: initialisation of a TPU; measured: of a {cell['kind']}"
    for name, text in [("sequence_length", "steps per sequence"), ("steps_per_epoch", "steps per epoch")]:
        wanted = parse_number(entry.get(name, ""))
        measured = cell["steps_per_sequence" if name == "sequence_length" else name]
        relevant = name == "sequence_length" or matching.per_epoch
        if relevant and wanted and (pd.isna(measured) or wanted != measured):
            yield f"measured with {'unknown' if pd.isna(measured) else int(measured)} {text}, published with {wanted:g}"
    if matching.per_epoch and cell["fraction"] != 1.0:
        yield f"measured on {cell['fraction']:g} of the training data"
    epochs = parse_number(entry.get("epochs", ""))
    learned = {epoch for epoch in (cell["fewest_epochs"], cell["learned_epochs"]) if pd.notna(epoch)}
    if matching.learned and epochs and learned and learned != {epochs}:
        yield f"learned for {epochs_words(cell)}, published after {epochs:g}"
    if matching.quality and "standin" in str(cell["source"]):
        yield "learned on stand-in data"


def remarks(entry: Mapping[str, str], matching: Matching, cell: pd.Series) -> Iterator[str]:
    """Yield what is to be known of a measured case beside a ratio."""
    if not entry["batch_size"]:
        size = "N" if cell["module"] == "matmul" else "batch size"
        yield f"{size} not published; the best measured one is shown"
    if not matching.quality and "standin" in str(cell["source"]):
        yield "stand-in data of the same shapes"
    if entry["metric"] == "tpu_init_time":
        return
    if cell["precision"] != (precision := their_precision(entry)):
        known = "is in" if entry.get("precision") else "is taken for"
        yield f"measured in {cell['precision']}; the published number {known} {precision}"
    yield from _validation_remarks(entry, matching, cell)


def _validation_remarks(entry: Mapping[str, str], matching: Matching, cell: pd.Series) -> Iterator[str]:
    """Whether just one of the two times holds validation, as far as the source tells."""
    theirs, ours = entry.get(VALIDATION, ""), pd.notna(cell["validation_time"])
    if matching.column == "learned_epoch_time" and pd.notna(cell[matching.column]) and theirs == YES and ours:
        return  # it was added
    if matching.column in TRAINING_TIMES or (matching.column == "learning_time" and not ours):
        if theirs != NO and cell["unit"] not in OPERATIONS:
            yield f"without validation, which the published time {'holds' if theirs == YES else 'may hold'}"
    elif matching.column == "learning_time" and theirs != YES:
        yield f"with validation, which the published time {'does not hold' if theirs == NO else 'may not hold'}"


def their_precision(entry: Mapping[str, str]) -> str:
    """The number format of a published figure, as far as it is known."""
    return entry.get("precision") or PRECISION


MATCHING: dict[tuple[str, str], Matching] = {
    ("epoch_time", "s"): Matching("learned_epoch_time", "n_learned", per_epoch=True),
    ("first_epoch_time", "s"): Matching("first_epoch_time", "n_timed", per_epoch=True),
    ("step_time", "ms"): Matching("step_time", "n_timed", 1e3),
    ("step_time", "us/sample"): Matching("sample_time", "n_timed", 1e6),
    ("throughput", "TFLOP/s"): Matching("tflops", "n_timed", higher_is_better=True),
    ("throughput_cold", "TFLOP/s"): Matching("cold_tflops", "n_timed", higher_is_better=True),
    ("wall_time", "s"): Matching("learning_time", "n_learned", per_epoch=True, learned=True),
    ("total_time", "s"): Matching("learning_time", "n_learned", per_epoch=True, learned=True),
    ("tpu_init_time", "s"): Matching("initialise", "n_timed"),
    **{
        (metric, unit): Matching(column, "n_learned", 1.0, True, True, True)
        for metric, unit, column in [
            ("validation_accuracy", "fraction", "validation_metric"),
            ("training_accuracy", "fraction", "training_metric"),
            ("validation_loss", "", "validation_loss"),
            ("test_loss", "MSE after 50 warm-up steps", "validation_loss"),
        ]
    },
}


def read_published(path: Path) -> list[dict[str, str]]:
    """The published figures. Raises StudyError when the file lacks a column or a number is none."""
    rows = read_rows(path)
    needed = {"source", "date", "device", "device_class", "workload", "batch_size", "metric", "value", "unit", "caveat"}
    if rows and (missing := sorted(needed - rows[0].keys())):
        raise StudyError(f"{path}: no column {missing[0]}")
    for place, row in enumerate(rows, start=1):
        if (words := row.get(VALIDATION, "")) not in ("", YES, NO):
            raise StudyError(f"{path}: row {place}: {VALIDATION} is {words!r}; write {YES}, {NO} or nothing")
        for name in NUMBERS & row.keys():
            if not _is_number(row[name]):
                raise StudyError(f"{path}: row {place}: {name} is {row[name]!r}, which is no number")
    return rows


def _is_number(text: str | None) -> bool:
    try:
        return not text or math.isfinite(float(text))
    except (TypeError, ValueError):
        return False


@makes("each published figure beside what this study measured of the same thing", PUBLISHED_COLUMNS)
def make_published(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return published_table(sources.claimed, sources.table("summary"))


def published_table(published: Sequence[Mapping[str, str]], summary: pd.DataFrame) -> pd.DataFrame:
    """Each published figure with every measured cell of the same workload and batch size, or alone."""
    trained = ~summary["mode"].isin(["predict", "generate"])  # what is published is of training
    measured = summary[trained & (summary["n_timed"].fillna(0) > 0)].copy()
    measured["sample_time"] = measured["step_time"] / measured["batch_size"].astype("float64")
    records = [row for entry in published for row in _rows(entry, measured)]
    return table(records, PUBLISHED_COLUMNS)


def _rows(entry: Mapping[str, str], measured: pd.DataFrame) -> Iterator[dict[str, Any]]:
    theirs = {
        **{name: entry[name] or None for name in ("source", "date", "device_class", "metric", "unit", "caveat")},
        "published_device": entry["device"],
        "published_workload": entry["workload"],
        "published_batch_size": parse_number(entry["batch_size"]),
        "value": parse_number(entry["value"]),
        "standing": entry.get("status") or "as published",
    }
    matching = MATCHING.get((entry["metric"], entry["unit"]))
    if matching is None:
        yield theirs | {"note": "this study has no such number"}
        return
    cells = _cells(entry, matching, measured)
    if cells.empty:
        yield theirs | {"note": "not measured here"}
    for _, cell in cells.iterrows():
        yield theirs | _beside(entry, matching, cell)


def _cells(entry: Mapping[str, str], matching: Matching, measured: pd.DataFrame) -> pd.DataFrame:
    """Cells of the same workload, batch size and whole data; without a published size the best of all settings."""
    batch_size = parse_number(entry["batch_size"])
    values = _values(entry, matching, measured)
    wanted = (measured["module"] == entry["workload"]) & values.notna()
    if batch_size:
        wanted &= measured["batch_size"] == batch_size
    cells = measured[wanted]  # at once: taking rows of so wide a table is most of the work
    if cells.empty:
        return cells
    cells = cells.assign(compared=values)
    largest = cells.groupby(["device", "batch_size"])["fraction"].transform("max")
    cells = cells[cells["fraction"] == largest]
    if not batch_size:
        kinds = ["device", "backend", "precision"]
        cells = cells[enough_repeats(cells["n_timed"], [cells[name] for name in kinds])]
        higher = matching.higher_is_better or "accuracy" in entry["metric"]
        better = cells["compared"] if higher else -cells["compared"]
        cells = cells.loc[better.groupby([cells[name] for name in kinds], sort=False).idxmax()]
    return cells


def _values(entry: Mapping[str, str], matching: Matching, cells: pd.DataFrame) -> pd.Series:
    """The measured values of what the published one holds; an epoch that nobody ran in full is taken from the steps."""
    values = cells[matching.column].astype("float64")
    if matching.column == "learning_time":
        return values + cells["first_step"]  # learning starts with the program compiled
    if matching.column != "learned_epoch_time":
        return values
    if entry.get(VALIDATION) == YES:
        values = values + cells["validation_time"].fillna(0.0)
    return values.fillna(cells["epoch_time"].astype("float64"))


def _beside(entry: Mapping[str, str], matching: Matching, cell: pd.Series) -> dict[str, Any]:
    computed = matching.column == "learned_epoch_time" and pd.isna(cell[matching.column])
    measured = float(cell["compared"] or float("nan")) * matching.scale
    unlike = list(unlike_words(entry, matching, cell))
    words = [*unlike, *remarks(entry, matching, cell)]
    theirs = parse_number(entry["value"])
    if computed:
        words.append("epoch time computed from steps")
    if entry.get("status") == DISPUTED:
        words.append("no ratio: the published number is doubtful, see its caveat")
    return {
        **{name: cell[name] for name in [*CELL, "kind", "device_name", "evidence"]},
        "data": cell["source"],
        "measured": measured,
        **_ends(matching, cell, measured),
        "ratio": measured / theirs if theirs and not unlike and entry.get("status") != DISPUTED else None,
        "n": cell["n_timed" if computed else matching.n],
        "note": "; ".join(words) or None,
    }


def _ends(matching: Matching, cell: pd.Series, measured: float) -> dict[str, float]:
    """The interval of a measured number that is proportional to the step time or the throughput."""
    base = BOUNDED.get(matching.column)
    if base is None or (matching.column == "learned_epoch_time" and pd.notna(cell[matching.column])):
        return {}
    return {f"measured_{end}": measured * cell[f"{base}_{end}"] / cell[base] for end in ("low", "high")}
