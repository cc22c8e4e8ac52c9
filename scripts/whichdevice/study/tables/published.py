"""Make table `published`: what somebody published beside what this study measured or forecasts of the same work."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from whichdevice.base.errors import StudyError
from whichdevice.decide.rows import OPERATIONS
from whichdevice.study.tables import makes
from whichdevice.study.tables.base import Sources, columns_of, device_name, epochs_words, read_rows, table
from whichdevice.study.tables.measured import enough_repeats

PRECISION = "float32"  # what a publication is taken to have used where it does not say
VALIDATION, YES, NO = "validation", "yes", "no"  # whether a published time holds validation, as Keras' own times do
DISPUTED = "disputed"
PUBLISHED_COLUMNS = columns_of("published")
NUMBERS = {"value", "batch_size", "epochs", "steps_per_epoch", "sequence_length", "chips", "suspect_factor"}
BOUNDS = ("", "_low", "_high")
FIGURE = ["source", "workload", "metric", "published_batch_size", "published_device", "value"]  # one published figure
TIME_UNITS = {  # (metric, unit): what the time is of, and seconds in the unit
    ("epoch_time", "s"): ("epoch", 1.0),
    ("first_epoch_time", "s"): ("epoch", 1.0),
    ("wall_time", "s"): ("training", 1.0),
    ("total_time", "s"): ("training", 1.0),
    ("step_time", "ms"): ("step", 1e-3),
    ("step_time", "us/sample"): ("example", 1e-6),
}
QUALITY = {  # metrics that depend on the data: column of the summary
    "validation_accuracy": "validation_metric",
    "training_accuracy": "training_metric",
    "validation_loss": "validation_loss",
    "test_loss": "validation_loss",
}
MEASURED_ALONE = {"throughput_cold": "cold_tflops", "tpu_init_time": "initialise", **QUALITY}  # no forecast has them
SPEED = "TFLOP/s"
EPOCH_EXAMPLES = {"mnist_official": 60_000.0, "mnist_cnn": 60_000.0, "fashion_cnn": 60_000.0}  # of an epoch


class Size(NamedTuple):
    """How much work a published time holds: examples, each of so many steps."""

    examples: float
    length: float | None


def parse_number(text: str | None) -> float | None:
    """A number of the hand-kept sheet, or None where it is empty."""
    return float(text) if text else None


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


@makes("each published figure beside what this study measured or forecasts of the same work", PUBLISHED_COLUMNS)
def make_published(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return published_table(sources.claimed, sources.table("summary"), sources.table("forecasts"))


def published_table(
    published: Sequence[Mapping[str, str]], summary: pd.DataFrame, forecasts: pd.DataFrame
) -> pd.DataFrame:
    """Return a row for each published figure and device that has the same work, or one without a device.

    A time is computed from the time of an example at the nearest batch size, so it holds neither start nor compilation
    nor validation. Qualities count on real data alone.
    """
    measured = summary[summary["step_time"].notna() & ~summary["mode"].isin(["predict", "generate"])]
    fit = forecasts[(forecasts["status"] == "ok") & ~forecasts["mode"].isin(["predict", "prefill", "decode"])]
    fit = fit.assign(device=[device_name(row) for _, row in fit.iterrows()], steps_per_sequence=fit["sequence_length"])
    cells = pd.concat([measured.assign(evidence="measured"), fit], ignore_index=True)
    return table([row for entry in published for row in _rows(entry, cells)], PUBLISHED_COLUMNS)


def _rows(entry: Mapping[str, str], cells: pd.DataFrame) -> Iterator[dict[str, Any]]:
    value, unit = parse_number(entry["value"]), entry["unit"]
    _, scale = TIME_UNITS.get((entry["metric"], unit), ("", None))
    number = value * scale if scale and value is not None else value
    theirs = {
        **{name: entry[name] or None for name in ("source", "date", "workload", "metric", "device_class", "caveat")},
        "published_device": entry["device"],
        "published_batch_size": parse_number(entry["batch_size"]),
        "standing": entry.get("status") or "as published",
        "unit": "s" if scale else unit or None,
        "value": number,
    }
    same = cells[cells["module"] == entry["workload"]]
    same = same.join(pd.DataFrame([_values(entry, cell) for _, cell in same.iterrows()], same.index, list(BOUNDS)))
    devices = same[same[""].notna()].groupby(["device", "evidence"], sort=False)
    ours = [theirs | _beside(entry, number, _chosen(entry, cells_of)) for _, cells_of in devices]
    yield from ours or [theirs]


def _chosen(entry: Mapping[str, str], cells: pd.DataFrame) -> pd.Series:
    """A device's cell of the largest share of the data, the nearest batch size, their format, and the best number."""
    cells = cells[cells["fraction"].isna() | (cells["fraction"] == cells["fraction"].max())]
    cells = cells[enough_repeats(cells["n_timed"].fillna(1))]
    if theirs := parse_number(entry["batch_size"]):
        apart = (cells["batch_size"].astype(float).map(math.log) - math.log(theirs)).abs()
        cells = cells[apart == apart.min()]
    same = cells["precision"] == (entry.get("precision") or PRECISION)
    cells = cells[same] if same.any() else cells
    higher = entry["unit"] == SPEED or "accuracy" in entry["metric"]
    return cells.sort_values("", ascending=not higher, kind="stable").iloc[0]


def _values(entry: Mapping[str, str], cell: pd.Series) -> list[float]:
    """A cell's number in the published unit, times in seconds, with the ends of its interval; NaN where unknown."""
    nothing, metric = [math.nan] * 3, entry["metric"]
    if metric in MEASURED_ALONE:
        made_up = metric in QUALITY and "standin" in str(cell["source"])
        other = metric == "tpu_init_time" and cell["kind"] != "tpu"
        known = cell["evidence"] == "measured" and not made_up and not other and pd.notna(cell[MEASURED_ALONE[metric]])
        return [float(cell[MEASURED_ALONE[metric]]), math.nan, math.nan] if known else nothing
    steps = [float(cell[f"step_time{bound}"]) for bound in BOUNDS]
    if metric == "throughput" and entry["unit"] == SPEED:
        operations = 2.0 * float(cell["batch_size"]) ** 3 / 1e12
        return [operations / steps[place] for place in (0, 2, 1)]
    size = _size(entry, cell)
    if size is None:
        return nothing
    longer = size.length / float(cell["steps_per_sequence"]) if size.length else 1.0
    return [step / float(cell["batch_size"]) * size.examples * longer for step in steps]


def _size(entry: Mapping[str, str], cell: pd.Series) -> Size | None:
    """The work that a published time holds; None where it is no time, or the source does not say."""
    counted, _ = TIME_UNITS.get((entry["metric"], entry["unit"]), ("", None))
    numbers = {name: parse_number(entry.get(name, "")) for name in ("batch_size", "epochs", "steps_per_epoch")}
    length = parse_number(entry.get("sequence_length", ""))
    batch, steps = numbers["batch_size"], numbers["steps_per_epoch"]
    epoch = batch * steps if batch and steps else EPOCH_EXAMPLES.get(entry["workload"])
    examples = {
        "example": 1.0, "step": batch, "epoch": epoch, "training": epoch and (numbers["epochs"] or 1.0) * epoch,
    }.get(counted)  # fmt: skip
    if not examples or (length and pd.isna(cell["steps_per_sequence"])):
        return None
    return Size(examples, length)


def _beside(entry: Mapping[str, str], theirs: float | None, cell: pd.Series) -> dict[str, Any]:
    """Return this study's number, how it differs from theirs, and the ratio where the two are of the same thing."""
    unlike = list(_unlike(entry, cell))
    return {
        **{name: cell[name] for name in ("device", "kind", "precision", "batch_size", "evidence")},
        **{f"ours{bound}": cell[bound] for bound in BOUNDS},
        "n": cell["n_learned" if entry["metric"] in QUALITY else "n_timed"],
        "data": cell["source"],
        "ratio": cell[""] / theirs if theirs and not unlike else None,
        "note": "; ".join([*unlike, *_remarks(entry, cell)]) or None,
    }


def _unlike(entry: Mapping[str, str], cell: pd.Series) -> Iterator[str]:
    """Yield what makes ours another thing than theirs, so that no ratio may be given."""
    batch, length, epochs = (parse_number(entry.get(name, "")) for name in ("batch_size", "sequence_length", "epochs"))
    if batch and cell["batch_size"] != batch:
        yield f"at batch size {cell['batch_size']}, published at {batch:g}"
    if length and cell["steps_per_sequence"] != length:
        yield f"with {int(cell['steps_per_sequence'])} steps per sequence, published with {length:g}"
    if entry["metric"] == "first_epoch_time":
        yield "without the compilation that the published time holds"
    if entry["metric"] in QUALITY:
        if cell["fraction"] != 1.0:
            yield f"learned from {cell['fraction']:g} of the training data"
        if epochs and {cell["fewest_epochs"], cell["learned_epochs"]} != {epochs}:
            yield f"learned for {epochs_words(cell)}, published after {epochs:g}"
    if entry.get("status") == DISPUTED:
        yield "no ratio: the published number is doubtful, see its caveat"


def _remarks(entry: Mapping[str, str], cell: pd.Series) -> Iterator[str]:
    """Yield what is to be known beside a ratio."""
    if not entry["batch_size"]:
        yield f"{'N' if cell['module'] == 'matmul' else 'batch size'} not published; the best one is shown"
    if "standin" in str(cell["source"]):
        yield "stand-in data of the same shapes"
    if entry["metric"] == "tpu_init_time":
        return
    if cell["precision"] != (precision := entry.get("precision") or PRECISION):
        known = "is in" if entry.get("precision") else "is taken for"
        yield f"in {cell['precision']}; the published number {known} {precision}"
    if entry["metric"] in QUALITY or cell["unit"] in OPERATIONS:
        return
    if (holds := entry.get(VALIDATION, "")) != NO:
        yield f"without validation, which the published time {'holds' if holds == YES else 'may hold'}"
