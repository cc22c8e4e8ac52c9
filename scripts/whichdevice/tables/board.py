"""Make table `board`.

A measured device shows its fastest cell of that batch size; a device that nobody ran the fastest forecast that fits its
memory. Where a device was measured and forecast in the same number format, the forecast is beside the measured time.
"""

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from whichdevice.tables import makes
from whichdevice.tables.base import CELL, Column, Sources, device_name, table
from whichdevice.tables.hardware import device_rows
from whichdevice.tables.limits import WIDE
from whichdevice.tables.measured import enough_repeats, without_rehearsals

MEASURED, FORECAST, DOES_NOT_FIT, UNKNOWN = "measured", "forecast", "does not fit", "no forecast"
SMALL = "small steps"  # family of a forecast whose time the host decides
WORK = ["workload", "sequence_length"]

COLUMNS: dict[str, Column] = {
    "workload": Column("text", "workload, as the config names it"),
    "sequence_length": Column("int", "steps per sequence, where the config sets it"),
    "unit": Column("text", "what is counted: an image, a sequence, a product"),
    "mode": Column("text", "train, predict, or generate: a token of each sequence; empty: a single operation"),
    "device": Column("text", "a measured device as the config names it; a forecast one by its row of the sheet"),
    "kind": Column("text", "cpu, gpu or tpu"),
    "hardware": Column("text", "row of config/hardware.csv, where known"),
    "evidence": Column("text", "measured, forecast, does not fit (stated by the compiler), or no forecast"),
    "batch": Column("int", "examples per step over all replicas; for matmul, N"),
    "precision": Column("text", "number format"),
    "step_ms": Column("float", "ms a step"),
    "low_ms": Column("float", "lower end: 95 % over processes where measured, 80 % where forecast"),
    "high_ms": Column("float", "upper end"),
    "wide": Column("flag", "the upper end is more than three times the lower one: too wide for other numbers"),
    "n": Column("int", "processes behind a measured number"),
    "throughput": Column("float", "units per s"),
    "throughput_low": Column("float", "lower end"),
    "throughput_high": Column("float", "upper end"),
    "usd_per_hour": Column("float", "US dollars for an hour of the whole device"),
    "usd_per_million_examples": Column("float", "US dollars for a million units"),
    "usd_low": Column("float", "lower end, the price taken as exact"),
    "usd_high": Column("float", "upper end"),
    "price": Column("text", "where the price is from, or why there is none"),
    "baseline": Column("text", "the measured device with the fastest step of this workload and batch size"),
    "ratio": Column("float", "step time of the baseline / of this device: above 1 is faster"),
    "ratio_low": Column("float", "lower end, from both intervals, as if independent"),
    "ratio_high": Column("float", "upper end"),
    "fits": Column("flag", "whether the memory needed is available"),
    "host_decides": Column("flag", "a small step: launches and the host's dispatch decide, not the device"),
    "forecast_ms": Column("float", "ms, forecast of a measured device in the same number format"),
    "forecast_low_ms": Column("float", "lower end of its 80 % interval"),
    "forecast_high_ms": Column("float", "upper end"),
    "residual": Column("float", "measured / forecast step time"),
    "contradicts": Column("flag", "the measured interval lies outside the forecast's"),
    "note": Column("text", "what to keep in mind"),
}


@makes("each workload on each device, measured or forecast, at the batch size that most devices have", COLUMNS)
def make_board(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    summary, costs, forecasts = (sources.table(name) for name in ("summary", "costs", "forecasts"))
    return board_table(summary, costs, forecasts, sources.once(device_rows))


def board_table(
    summary: pd.DataFrame, costs: pd.DataFrame, forecasts: pd.DataFrame, hardware: dict[str, str | None]
) -> pd.DataFrame:
    """Rows by workload, measured devices first, then forecasts from the fastest on, then what has no time.

    `hardware` is the sheet's row of each measured device.
    """
    measured = without_rehearsals(summary[(summary["n_timed"].fillna(0) > 0) & summary["step_time"].notna()])
    forecasts = forecasts[forecasts["workload"].notna() & forecasts["mode"].ne("prefill").fillna(True)]
    forecasts = forecasts.assign(mode=forecasts["mode"].replace("decode", "generate"))
    priced = costs[[*CELL, "usd_per_hour", "price", *(f"usd_per_million{end}" for end in ("", "_low", "_high"))]]
    measured = measured.merge(priced, on=CELL, how="left")
    rows: list[dict[str, Any]] = []
    works = pd.concat([measured[WORK], forecasts[WORK]]).drop_duplicates()
    for workload, length in works.itertuples(index=False, name=None):
        own, other = (_same(frame, workload, length) for frame in (measured, forecasts))
        rows += _work(own, other, hardware)
    return table(rows, COLUMNS)


def _same(frame: pd.DataFrame, workload: str, length: Any) -> pd.DataFrame:
    lengths = frame["sequence_length"]
    return frame[(frame["workload"] == workload) & (lengths.isna() if pd.isna(length) else (lengths == length))]


def _work(measured: pd.DataFrame, forecasts: pd.DataFrame, hardware: dict[str, str | None]) -> list[dict[str, Any]]:
    """The rows of one workload and sequence length, at one batch size."""
    both = pd.concat([measured[["device", "batch_size"]], forecasts[["device", "batch_size"]]])
    devices = both.drop_duplicates().groupby("batch_size").size()
    batch = devices[devices == devices.max()].index.max()
    here = [_measured(row, hardware) for row in _fastest_cells(measured[measured["batch_size"] == batch])]
    there = list(_forecasts(forecasts[forecasts["batch_size"] == batch]))
    found = []
    for row in here:
        matching = [each for each in there if _is_same_device(each, row) and each["step_ms"] is not None]
        if matching:
            there = [each for each in there if each is not matching[0]]
            row |= _beside(row, matching[0])
        found.append(row)
    best = min((row for row in here if not row["wide"]), key=lambda row: row["step_ms"], default=None)
    ordered = sorted(there, key=lambda row: (row["step_ms"] is None, row["step_ms"] or 0.0))
    return [_against(row, best) for row in [*found, *_one_a_device(ordered)]]


def _fastest_cells(cells: pd.DataFrame) -> Iterator[pd.Series]:
    """The fastest cell of each device, of those with enough good repeats and the largest share of the data."""
    for _, own in cells.groupby("device", sort=False):
        own = own[own["fraction"] == own["fraction"].max()]
        own = own[enough_repeats(own["n_timed"])]
        yield own.sort_values("step_time", kind="stable").iloc[0]


def _measured(row: pd.Series, hardware: dict[str, str | None]) -> dict[str, Any]:
    names = {"step_ms": "step_time", "low_ms": "step_time_low", "high_ms": "step_time_high"}
    found: dict[str, Any] = {ours: _scaled(row[theirs], 1e3) for ours, theirs in names.items()}
    wide = _is_wide(found["low_ms"], found["high_ms"])
    found |= {
        **{name: row[name] for name in ("workload", "sequence_length", "unit", "mode", "device", "kind", "precision")},
        **{f"throughput{end}": row[f"throughput{end}"] for end in ("", "_low", "_high")},
        "hardware": hardware.get(str(row["device"])),
        "replicas": row["replicas"],
        "evidence": MEASURED,
        "batch": row["batch_size"],
        "n": row["n_timed"],
        "fits": True,
        "wide": wide,
        "price": row["price"],
        "usd_per_hour": row["usd_per_hour"],
        "note": "the interval is wider than a factor of three" if wide else None,
    }
    return found if wide else found | _money(row)


def _money(row: pd.Series) -> dict[str, Any]:
    names = {"usd_per_million_examples": "", "usd_low": "_low", "usd_high": "_high"}
    return {ours: row[f"usd_per_million{end}"] for ours, end in names.items()}


def _forecasts(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for _, row in rows.iterrows():
        known = pd.notna(row["step_time"])
        fits = None if pd.isna(row["fits"]) else bool(row["fits"])
        found: dict[str, Any] = {
            **{name: row[name] for name in ("workload", "sequence_length", "unit", "mode", "kind", "precision")},
            "device": str(row["device"]) if str(row["slice"]).endswith("-1x1") else device_name(row),
            "hardware": row["device"],
            "replicas": row["devices"],
            "batch": row["batch_size"],
            "price": row["price"],
            "usd_per_hour": row["usd_per_hour"],
            "fits": fits,
            "evidence": DOES_NOT_FIT if fits is False else FORECAST if known else UNKNOWN,
            "note": row["note"] if known and fits is not False else row["reason"],
            "step_ms": None,
        }
        if known and fits is not False:
            ends = row["step_time_low"], row["step_time_high"]
            found |= {
                "step_ms": row["step_time"] * 1e3,
                "low_ms": ends[0] * 1e3,
                "high_ms": ends[1] * 1e3,
                "wide": _is_wide(*ends),
                "throughput": row["throughput"],
                "throughput_low": row["throughput"] * row["step_time"] / ends[1],
                "throughput_high": row["throughput"] * row["step_time"] / ends[0],
                "host_decides": row["family"] == SMALL,
                **_money(row),
            }
        yield found


def _one_a_device(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first row of each device."""
    first: dict[str, dict[str, Any]] = {}
    for row in rows:
        first.setdefault(str(row["device"]), row)
    return list(first.values())


def _is_same_device(forecast: dict[str, Any], measured: dict[str, Any]) -> bool:
    same = ("hardware", "replicas", "precision")
    return measured["hardware"] is not None and all(forecast[name] == measured[name] for name in same)


def _beside(measured: dict[str, Any], forecast: dict[str, Any]) -> dict[str, Any]:
    low, high = (_or(measured[end], measured["step_ms"]) for end in ("low_ms", "high_ms"))
    outside = low > forecast["high_ms"] or high < forecast["low_ms"]
    residual = measured["step_ms"] / forecast["step_ms"]
    words = f"measured time is outside its forecast's interval, {residual:.3g} times the forecast" if outside else None
    return {
        "forecast_ms": forecast["step_ms"],
        "forecast_low_ms": forecast["low_ms"],
        "forecast_high_ms": forecast["high_ms"],
        "residual": residual,
        "contradicts": outside,
        "host_decides": forecast["host_decides"],
        "note": "; ".join(filter(None, [measured["note"], words])) or None,
    }


def _against(row: dict[str, Any], best: dict[str, Any] | None) -> dict[str, Any]:
    """With the ratio to the baseline; none from a measured number whose interval is too wide."""
    if best is None or row["step_ms"] is None or (row["evidence"] == MEASURED and row["wide"]):
        return row
    row = row | {"baseline": best["device"], "ratio": best["step_ms"] / row["step_ms"]}
    if row["device"] == best["device"]:
        return row
    ends = row["low_ms"], row["high_ms"]
    if any(end is None for end in ends):
        return row
    base = [math.log(_or(best[end], best["step_ms"]) / best["step_ms"]) for end in ("low_ms", "high_ms")]
    own = [math.log(end / row["step_ms"]) for end in ends]
    return row | {
        "ratio_low": row["ratio"] * math.exp(-math.hypot(own[1], base[0])),
        "ratio_high": row["ratio"] * math.exp(math.hypot(own[0], base[1])),
    }


def _is_wide(low: Any, high: Any) -> bool:
    return bool(low is not None and pd.notna(low) and high > WIDE * low)


def _scaled(value: Any, factor: float) -> float | None:
    return None if pd.isna(value) else float(value) * factor


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
