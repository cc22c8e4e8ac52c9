"""Make table `claims`."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from whichdevice.study.tables import makes
from whichdevice.study.tables.base import Sources, columns_of, device_name, table
from whichdevice.study.tables.published import parse_number

BOUNDS = ("", "_low", "_high")
TIME_UNITS = {  # (metric, unit): times of an epoch or a step, and seconds in the unit
    ("epoch_time", "s"): ("epoch", 1.0),
    ("first_epoch_time", "s"): ("epoch", 1.0),
    ("wall_time", "s"): ("training", 1.0),
    ("total_time", "s"): ("training", 1.0),
    ("step_time", "ms"): ("step", 1e-3),
    ("step_time", "us/sample"): ("example", 1e-6),
}
QUALITY = {
    "validation_accuracy": "validation_metric",
    "training_accuracy": "training_metric",
    "validation_loss": "validation_loss",
}
SPEED = "TFLOP/s"
CLAIMS_COLUMNS = columns_of("claims")


class Size(NamedTuple):
    """How much work a published time holds: examples, each of so many steps."""

    examples: float
    length: float | None


@makes("each published figure beside what this study measured or forecasts of as much of the same work", CLAIMS_COLUMNS)
def make_claims(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return claims_table(sources.claimed, sources.table("summary"), sources.table("forecasts"))


def claims_table(
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
    return table([row for entry in published for row in _rows(entry, cells)], CLAIMS_COLUMNS)


def _rows(entry: Mapping[str, str], cells: pd.DataFrame) -> Iterator[dict[str, Any]]:
    value, unit = parse_number(entry["value"]), entry["unit"]
    _, scale = TIME_UNITS.get((entry["metric"], unit), ("", None))
    theirs = {
        **{name: entry[name] or None for name in ("source", "date", "workload", "metric", "device_class")},
        "published_device": entry["device"],
        "published_batch_size": parse_number(entry["batch_size"]),
        "standing": entry.get("status") or "as published",
        "unit": "s" if scale else unit or None,
        "value": value * scale if scale and value is not None else value,
    }
    same = cells[cells["module"] == entry["workload"]]
    devices = same.groupby(["device", "evidence"], sort=False)
    ours = [theirs | known for _, one in devices for known in _ours(entry, one)]
    yield from ours or [theirs]


def _ours(entry: Mapping[str, str], cells: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The number of one device, of its fastest cell at the batch size nearest to theirs."""
    theirs = math.log(parse_number(entry["batch_size"]) or float(cells["batch_size"].max()))
    apart = (cells["batch_size"].astype(float).map(math.log) - theirs).abs()
    cell = cells[apart == apart.min()].sort_values("step_time", kind="stable").iloc[0]
    values = _values(entry, cell)
    if values is not None:
        known = {name: cell[name] for name in ("device", "kind", "batch_size", "evidence")}
        yield known | {f"ours{bound}": value for bound, value in zip(BOUNDS, values, strict=True)}


def _values(entry: Mapping[str, str], cell: pd.Series) -> list[float] | None:
    """The number in the published unit, times in seconds, with the ends of its interval."""
    steps = [float(cell[f"step_time{bound}"]) for bound in BOUNDS]
    if entry["metric"] == "throughput" and entry["unit"] == SPEED:
        operations = 2.0 * float(cell["batch_size"]) ** 3 / 1e12
        return [operations / steps[place] for place in (0, 2, 1)]
    if entry["metric"] in QUALITY:
        name = QUALITY[entry["metric"]]
        known = cell["evidence"] == "measured" and "standin" not in str(cell["source"]) and pd.notna(cell[name])
        return [float(cell[name]), math.nan, math.nan] if known else None
    counted, scale = TIME_UNITS.get((entry["metric"], entry["unit"]), ("", None))
    size = None if scale is None else _size(entry, counted, cell)
    if size is None:
        return None
    longer = size.length / float(cell["steps_per_sequence"]) if size.length else 1.0
    return [step / float(cell["batch_size"]) * size.examples * longer for step in steps]


def _size(entry: Mapping[str, str], counted: str, cell: pd.Series) -> Size | None:
    """The work that a published time holds; None where the source does not say."""
    numbers = {name: parse_number(entry.get(name, "")) for name in ("batch_size", "epochs", "steps_per_epoch")}
    length = parse_number(entry.get("sequence_length", ""))
    whole = EPOCH_EXAMPLES.get(entry["workload"])
    batch, steps = numbers["batch_size"], numbers["steps_per_epoch"]
    epoch = batch * steps if batch and steps else whole
    examples = {
        "example": 1.0, "step": batch, "epoch": epoch, "training": epoch and (numbers["epochs"] or 1.0) * epoch,
    }[counted]  # fmt: skip
    if not examples or (length and pd.isna(cell["steps_per_sequence"])):
        return None
    return Size(examples, length)


EPOCH_EXAMPLES = {"mnist_official": 60_000.0, "mnist_cnn": 60_000.0, "fashion_cnn": 60_000.0}  # of an epoch
